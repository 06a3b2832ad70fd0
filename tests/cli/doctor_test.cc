#include "cli/doctor.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "tests/hw/fake_root.h"
#include "tests/hw/pmu_trees.h"
#include "tests/hw/scripted_kernel.h"

namespace ptarmigan::cli {
namespace {

using Json = nlohmann::json;

bool HasType(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  if (type == "null") return value.is_null();
  ADD_FAILURE() << "the schema uses a type that this test does not know: " << type;
  return false;
}

// As much of JSON Schema as ours uses. Every violation is one line.
void Validate(const Json& schema, const Json& value, const std::string& place,
              std::vector<std::string>* violations) {
  const Json types =
      schema.at("type").is_array() ? schema.at("type") : Json::array({schema.at("type")});
  const bool type_fits = std::any_of(types.begin(), types.end(), [&value](const Json& type) {
    return HasType(value, type.get<std::string>());
  });
  if (!type_fits) violations->push_back(place + ": is " + value.type_name());
  if (value.is_object()) {
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>()))
        violations->push_back(place + ": lacks " + name.get<std::string>());
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name))
        Validate(properties.at(name), member, place + "." + name, violations);
      else if (!schema.value("additionalProperties", true))
        violations->push_back(place + ": has " + name);
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i)
      Validate(schema.at("items"), value[i], place + "[" + std::to_string(i) + "]", violations);
  }
}

Json Schema() {
  const auto text =
      ReadFile(std::string(PTARMIGAN_SOURCE_DIR) + "/docs/formats/doctor.schema.json");
  EXPECT_TRUE(text.has_value());
  return text ? Json::parse(*text) : Json();
}

std::vector<std::string> Violations(const std::string& json) {
  std::vector<std::string> violations;
  Validate(Schema(), Json::parse(json), "doctor", &violations);
  return violations;
}

struct Machine {
  const char* name;
  void (*lay_out)(FakeRoot*);
  const char* arch;
  const char* cpuinfo;
  std::vector<std::string> available;
};

constexpr const char* kIntel =
    "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Intel\nstepping\t: "
    "6\n"
    "flags\t\t: fpu intel_pt\n";
constexpr const char* kAmd =
    "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD\nstepping\t: 1\n"
    "flags\t\t: fpu ibs\n";
constexpr const char* kCloud =
    "vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Intel\nstepping\t: "
    "6\n"
    "flags\t\t: fpu hypervisor\n";
constexpr const char* kArm = "CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";

const Machine kMachines[] = {
    {"IceLake", IceLake, "x86_64", kIntel, {"cycles", "lbr", "pt", "pebs-mem"}},
    {"SapphireRapids", SapphireRapids, "x86_64", kIntel, {"cycles", "lbr", "pt", "pebs-mem"}},
    {"AlderLake", AlderLake, "x86_64", kIntel, {"cycles", "lbr", "pt", "pebs-mem"}},
    {"Broadwell", BroadwellPt, "x86_64", kIntel, {"cycles", "lbr", "pt"}},
    {"Zen3", Zen3, "x86_64", kAmd, {"cycles", "lbr", "ibs"}},
    {"Zen4", Zen4, "x86_64", kAmd, {"cycles", "lbr", "ibs"}},
    {"NeoverseN1", NeoverseN1, "aarch64", kArm, {"cycles", "spe"}},
    {"TwoSpeUnits", TwoSpeUnits, "aarch64", kArm, {"cycles", "spe"}},
    {"Juno", JunoBoard, "aarch64", kArm, {"cycles", "coresight"}},
    {"Cloud", CloudMachine, "x86_64", kCloud, {}},
};

class DoctorOn : public testing::TestWithParam<Machine> {};

TEST_P(DoctorOn, SaysWhatTheMachineHasByItsSchema) {
  const Machine& machine = GetParam();
  FakeRoot sys;
  FakeRoot proc;
  machine.lay_out(&sys);
  proc.File("sys/kernel/arch", std::string(machine.arch) + "\n").File("cpuinfo", machine.cpuinfo);
  ScriptedKernel kernel;
  const bool has_counters = !machine.available.empty();
  kernel.on_open = [&machine, has_counters](const EventAttr& attr, const PerfOpenTarget&) {
    if (attr.type == kPerfTypeSoftware) return 0;
    // BRBE came with Armv9.2.
    if (attr.Samples(kSampleBranchStack) && machine.arch == std::string("aarch64"))
      return EOPNOTSUPP;
    return has_counters ? 0 : ENOENT;
  };
  CapabilityProbeOptions options;
  options.proc_root = proc.path();
  options.sysfs_root = sys.path();
  options.kernel = &kernel;
  const Capabilities found = ProbeCapabilities(options);
  EXPECT_EQ(Violations(DoctorJson(found, {{"cpu-clock", {true, "fine"}}})),
            std::vector<std::string>());
  std::vector<std::string> available;
  for (const SourceCapability& source : found.sources) {
    const bool is_clock = source.name == "cpu-clock" || source.name == "task-clock";
    if (source.available && !is_clock) available.push_back(source.name);
    EXPECT_TRUE(source.available || !source.reason.empty()) << source.name;
  }
  EXPECT_EQ(available, machine.available);
}

INSTANTIATE_TEST_SUITE_P(Machines, DoctorOn, testing::ValuesIn(kMachines),
                         [](const auto& machine) { return std::string(machine.param.name); });

TEST(DoctorSchema, NoticesWhatDoesNotFit) {
  Json json = Json::parse(DoctorJson(Capabilities(), {}));
  EXPECT_TRUE(Violations(json.dump()).empty());
  json["sources"].push_back({{"name", 3}, {"available", true}, {"reason", ""}, {"color", "red"}});
  EXPECT_EQ(
      Violations(json.dump()),
      (std::vector<std::string>{"doctor.sources[0]: lacks remedy", "doctor.sources[0]: has color",
                                "doctor.sources[0].name: is number"}));
}

}  // namespace
}  // namespace ptarmigan::cli
