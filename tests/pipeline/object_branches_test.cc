#include "pipeline/object_branches.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "base/str_format.h"
#include "decode/instruction.h"
#include "elf/elf_file.h"
#include "pipeline/import.h"
#include "tests/encoders/branch_encoder.h"
#include "tests/support/test_data.h"

namespace ptarmigan {
namespace {

constexpr FileVaddr kOutside = ObjectBranches::kOutside;

SymbolizerOptions PlainSymbols() {
  SymbolizerOptions options;
  options.cache_directory = "-";
  return options;
}

class ObjectOfProgram : public testing::Test {
 protected:
  void SetUp() override {
    path_ = TestTemporaryDirectory() + "/program";
    std::ofstream(path_, std::ios::binary) << program_.Elf();
    const std::string recording = TestTemporaryDirectory() + "/recording.perf.data";
    std::ofstream(recording, std::ios::binary) << program_.Record(path_);
    ImportOptions options;
    options.symbolizer = PlainSymbols();
    auto profile = ReadProfile(recording, options);
    ASSERT_TRUE(profile.has_value());
    profile_ = *std::move(profile);
  }

  // An edge of `count` branches inside another object.
  void AddOtherObject(std::string_view file, uint64_t count) {
    Profile::Mapping mapping;
    mapping.start = {0x10000};
    mapping.limit = {0x20000};
    mapping.file = profile_.strings.Intern(file);
    profile_.mappings.push_back(mapping);
    Profile::Location location;
    location.mapping = static_cast<MappingId>(profile_.mappings.size() - 1);
    location.address = 0x10010;
    const LocationId from = profile_.AddLocation(location, {});
    location.address = 0x10020;
    const LocationId to = profile_.AddLocation(location, {});
    profile_.summary.branches.edges.push_back({.from = from, .to = to, .count = count});
  }

  BranchProgram program_{{.seed = 5, .functions = 6}};
  std::string path_;
  Profile profile_;
};

TEST_F(ObjectOfProgram, HoldsWhatRanByTheAddressesOfItsFile) {
  const auto object = PgoObject::Select(profile_, "", PlainSymbols());
  ASSERT_TRUE(object.has_value()) << object.error().message;
  const ObjectBranches& branches = object->branches();
  EXPECT_EQ(branches.path, path_);
  EXPECT_EQ(branches.edges_elsewhere + branches.branches_unplaced + branches.objects_elsewhere, 0U);
  std::map<BranchTruth::Run, uint64_t> edges;
  for (const ObjectBranches::Edge& edge : branches.edges) {
    edges[{edge.from.value, edge.to.value}] = edge.count;
  }
  std::map<BranchTruth::Run, uint64_t> true_edges;
  for (const auto& [run, edge] : program_.truth().edges) true_edges[run] = edge.count;
  EXPECT_EQ(edges, true_edges);
  std::map<BranchTruth::Run, uint64_t> blocks;
  for (const ObjectBranches::Block& block : branches.blocks) {
    blocks[{block.start.value, block.branch.value}] = block.count;
  }
  std::map<BranchTruth::Run, uint64_t> true_blocks;
  for (const auto& [run, block] : program_.truth().blocks) true_blocks[run] = block.count;
  EXPECT_EQ(blocks, true_blocks);
}

TEST_F(ObjectOfProgram, ReadsItsCodeToSeeWhereBlocksEnd) {
  const auto object = PgoObject::Select(profile_, "", PlainSymbols());
  ASSERT_TRUE(object.has_value());
  const auto file = ElfFile::Open(path_);
  ASSERT_TRUE(file.has_value());
  const InstructionDecoder decoder(Arch::kX86_64);
  const auto at = [&](FileVaddr address) {
    return decoder.Decode((*file)->ReadAt(address, kInstructionBytesMax));
  };
  std::map<FileVaddr, uint64_t> passed;  // conditional branches, by how often control went on
  for (const ObjectBranches::Block& block : object->branches().blocks) {
    EXPECT_EQ(block.end, block.branch + at(block.branch).size_bytes);
    for (FileVaddr address = block.start; address < block.branch;) {
      const Instruction instruction = at(address);
      ASSERT_GT(instruction.size_bytes, 0U);
      if (instruction.kind == Instruction::Kind::kConditionalJump) passed[address] += block.count;
      address = address + instruction.size_bytes;
    }
  }
  size_t conditional = 0;
  for (const ObjectBranches::Edge& way : object->branches().fall_throughs) {
    const Instruction before = at(way.from);
    EXPECT_EQ(way.to, way.from + before.size_bytes);
    EXPECT_TRUE(!before.leaves() || before.is_call());
    if (before.kind == Instruction::Kind::kConditionalJump) {
      EXPECT_EQ(way.count, passed[way.from]) << std::hex << way.from.value;
      ++conditional;
    }
  }
  EXPECT_EQ(conditional, passed.size());
  EXPECT_GT(conditional, 3U);
  size_t returns = 0;
  for (const ObjectBranches::Edge& edge : object->branches().edges) {
    EXPECT_EQ(edge.is_return, at(edge.from).kind == Instruction::Kind::kReturn);
    returns += edge.is_return ? 1 : 0;
  }
  EXPECT_GT(returns, 0U);
}

TEST_F(ObjectOfProgram, IsTheOneWithTheMostBranchesUnlessAnotherIsNamed) {
  AddOtherObject("/lib/other.so", 3);
  const auto most = PgoObject::Select(profile_, "", PlainSymbols());
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->branches().path, path_);
  EXPECT_EQ(most->branches().edges_elsewhere, 3U);
  EXPECT_EQ(most->branches().objects_elsewhere, 1U);
  const auto named = PgoObject::Select(profile_, "program", PlainSymbols());
  ASSERT_TRUE(named.has_value());
  EXPECT_EQ(named->branches().path, path_);
  // The file of the other one is not there.
  const auto other = PgoObject::Select(profile_, "other.so", PlainSymbols());
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kNotFound);
}

TEST_F(ObjectOfProgram, IsNeverTheKernelByItself) {
  AddOtherObject("[kernel.kallsyms]", uint64_t{1} << 40);
  const auto object = PgoObject::Select(profile_, "", PlainSymbols());
  ASSERT_TRUE(object.has_value());
  EXPECT_EQ(object->branches().path, path_);
}

TEST_F(ObjectOfProgram, KeepsEdgesThatEnterAndLeaveIt) {
  AddOtherObject("/lib/other.so", 3);
  BranchSummary::Edge& edge = profile_.summary.branches.edges.back();
  edge.to = profile_.summary.branches.edges.front().to;
  profile_.summary.branches.edges.push_back(
      {.from = profile_.summary.branches.edges.front().from, .to = edge.from, .count = 4});
  const auto object = PgoObject::Select(profile_, "", PlainSymbols());
  ASSERT_TRUE(object.has_value());
  uint64_t entered = 0;
  uint64_t left = 0;
  for (const ObjectBranches::Edge& found : object->branches().edges) {
    if (found.from == kOutside) entered += found.count;
    if (found.to == kOutside) left += found.count;
  }
  EXPECT_EQ(entered, 3U);
  EXPECT_EQ(left, 4U);
}

TEST_F(ObjectOfProgram, SaysWhatThereIsWhenNothingFits) {
  const auto object = PgoObject::Select(profile_, "nobody", PlainSymbols());
  ASSERT_FALSE(object.has_value());
  EXPECT_EQ(object.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(object.error().message.find(path_), std::string::npos) << object.error().message;
  const auto empty = PgoObject::Select(Profile(), "", PlainSymbols());
  ASSERT_FALSE(empty.has_value());
  EXPECT_NE(empty.error().message.find("perf record -b"), std::string::npos);
}

}  // namespace
}  // namespace ptarmigan
