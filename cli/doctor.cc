#include "cli/doctor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/str_format.h"
#include "cli/common_options.h"
#include "cli/live_profile.h"
#include "hw/branch_self_test.h"
#include "hw/capabilities.h"
#include "hw/hardware_source.h"
#include "query/entities.h"
#include "query/top.h"

// The known loop of `--verify`. Stable name, never inlined, never optimized away.
extern "C" [[gnu::noinline]] void ptarmigan_verify_loop() {
  volatile uint64_t value = 1;
  for (;;) value = value * 6364136223846793005U + 1442695040888963407U;
}

namespace ptarmigan::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
  bool json = false;
  bool verify = false;
};

constexpr double kLoopShareMin = 0.9;
constexpr auto kVerifyTime = std::chrono::seconds(1);

// A child that does nothing but the known loop until it is killed.
class LoopProcess {
 public:
  LoopProcess() : pid_(::fork()) {
    if (pid_ == 0) {
      std::signal(SIGALRM, SIG_DFL);
      ::alarm(60);  // never left behind
      ptarmigan_verify_loop();
    }
  }
  ~LoopProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  LoopProcess(const LoopProcess&) = delete;
  LoopProcess& operator=(const LoopProcess&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

Result<Profile> RecordLoop(const std::string& source, pid_t pid) {
  PerfSessionOptions session_options;
  session_options.target.kind = PerfTarget::Kind::kPids;
  session_options.target.pids = {pid};
  // A full trace of a busy second would take minutes to decode.
  TRY_ASSIGN(const SourceSetup setup,
             SetUpSource({.name = source, .aux_mode = AuxMode::kSnapshot}));
  if (source == "lbr" || source == "brbe") TRY(CheckBranchRecords(setup.events.front()));
  UseSource(setup, &session_options);
  TRY_ASSIGN(const std::unique_ptr<PerfSession> session,
             PerfSession::Open(std::move(session_options)));
  ImportOptions import;
  import.symbolizer.live = true;
  import.pipeline.live = true;
  PollOptions poll;
  poll.duration = kVerifyTime;
  poll.start = [&session] { return session->Enable(); };
  TRY_ASSIGN(LiveProfile live, CollectProfile(*session, import, poll));
  return std::move(live.profile);
}

Verification Verify(const std::string& source) {
  const LoopProcess loop;
  if (loop.pid() < 0) return {false, "no process could be started"};
  const auto profile = RecordLoop(source, loop.pid());
  if (!profile) return {false, profile.error().message};
  const EntityTable entities(*profile);
  const TopTable top =
      MakeTop(*profile, entities, std::vector<bool>(profile->samples.size(), true), {});
  int64_t in_loop = 0;
  for (const TopRow& row : top.rows) {
    if (entities.entities()[row.entity].function == "ptarmigan_verify_loop") in_loop += row.self[0];
  }
  const int64_t all = top.total[0];
  const double share = all == 0 ? 0 : static_cast<double>(in_loop) / static_cast<double>(all);
  return {share >= kLoopShareMin,
          StrFormat("{} samples, {:.1f} % of them in the known loop, {} lost", all, 100 * share,
                    profile->losses.Lost())};
}

Json OptionalFlag(const std::optional<bool>& value) { return value ? Json(*value) : Json(); }
Json OptionalNumber(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string DoctorJson(const Capabilities& found,
                       const std::map<std::string, Verification>& verified) {
  Json sources = Json::array();
  for (const SourceCapability& source : found.sources) {
    Json row = {{"name", source.name},
                {"available", source.available},
                {"reason", source.reason},
                {"remedy", source.remedy}};
    if (const auto result = verified.find(source.name); result != verified.end()) {
      row["verified"] = {{"passed", result->second.passed}, {"result", result->second.sentence}};
    }
    sources.push_back(std::move(row));
  }
  Json capabilities = Json::array();
  for (const ProcessCapability& capability : found.capabilities) {
    capabilities.push_back(
        {{"name", capability.name}, {"held", capability.held}, {"cost", capability.cost}});
  }
  const KernelCapability& kernel = found.kernel;
  Json json;
  json["sources"] = std::move(sources);
  json["kernel"] = {{"release", kernel.release},
                    {"arch", kernel.arch},
                    {"cpu", kernel.cpu},
                    {"virtual_machine", OptionalFlag(kernel.virtual_machine)},
                    {"page_table_isolation", OptionalFlag(kernel.page_table_isolation)},
                    {"perf_event_paranoid", OptionalNumber(kernel.perf_event_paranoid)},
                    {"max_sample_rate", OptionalNumber(kernel.max_sample_rate_hz)},
                    {"mlock_kb", OptionalNumber(kernel.mlock_kib)},
                    {"max_stack", OptionalNumber(kernel.max_stack_frames)},
                    {"kptr_restrict", OptionalNumber(kernel.kptr_restrict)},
                    {"nmi_watchdog", OptionalNumber(kernel.nmi_watchdog)}};
  json["bpf"] = {{"btf", found.bpf.btf},
                 {"jit", OptionalNumber(found.bpf.jit)},
                 {"unprivileged_disabled", OptionalNumber(found.bpf.unprivileged_disabled)}};
  json["capabilities"] = std::move(capabilities);
  return json.dump(1) + "\n";
}

namespace {

std::string ToText(const Capabilities& found, const std::map<std::string, Verification>& verified) {
  std::string text = StrFormat("{} on {}, Linux {}\n\nsources\n", found.kernel.cpu,
                               found.kernel.arch, found.kernel.release);
  for (const SourceCapability& source : found.sources) {
    text += StrFormat("  {:<11} {}", source.name, source.available ? "available" : "not available");
    if (!source.reason.empty()) text += StrFormat(": {}", source.reason);
    text += '\n';
    if (!source.remedy.empty()) text += StrFormat("  {:<11} -> {}\n", "", source.remedy);
    if (const auto result = verified.find(source.name); result != verified.end()) {
      text += StrFormat("  {:<11} verify {}: {}\n", "", result->second.passed ? "passed" : "FAILED",
                        result->second.sentence);
    }
  }
  const auto setting = [&text](std::string_view name, const std::optional<int64_t>& value) {
    text += StrFormat("  {:<22} {}\n", name, value ? std::to_string(*value) : "not readable");
  };
  text += "\nkernel settings\n";
  setting("perf_event_paranoid", found.kernel.perf_event_paranoid);
  setting("max_sample_rate", found.kernel.max_sample_rate_hz);
  setting("mlock_kb", found.kernel.mlock_kib);
  setting("max_stack", found.kernel.max_stack_frames);
  setting("kptr_restrict", found.kernel.kptr_restrict);
  setting("nmi_watchdog", found.kernel.nmi_watchdog);
  text += StrFormat("  {:<22} {}\n", "BPF type information", found.bpf.btf ? "yes" : "no");
  text += "\ncapabilities of this process\n";
  for (const ProcessCapability& capability : found.capabilities) {
    text += StrFormat("  {:<22} {}\n", capability.name,
                      capability.held ? "held" : StrFormat("missing: {}", capability.cost));
  }
  return text;
}

int RunDoctor(const DoctorOptions& options) {
  const Capabilities found = ProbeCapabilities();
  std::map<std::string, Verification> verified;
  bool all_passed = true;
  if (options.verify) {
    for (const SourceCapability& source : found.sources) {
      if (!source.available) continue;
      const Verification result = Verify(source.name);
      all_passed = all_passed && result.passed;
      verified.emplace(source.name, result);
    }
  }
  const Status status =
      WriteStandardOutput(options.json ? DoctorJson(found, verified) : ToText(found, verified));
  if (!status) return Fail(status.error());
  return all_passed ? kExitDone : kExitConditionFound;
}

}  // namespace

void AddDoctor(CLI::App* app, VerbFunction* chosen) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* verb =
      app->add_subcommand("doctor", "Say what this host can sample with, and how to get the rest");
  verb->add_flag("--json", options->json, "JSON instead of text");
  verb->add_flag("--verify", options->verify,
                 "Record a second of every available source and check it against a known loop");
  verb->callback([options, chosen] { *chosen = [options] { return RunDoctor(*options); }; });
}

}  // namespace ptarmigan::cli
