// ProfileBuilder: makes a Profile in which equal things exist once. Content decides: two stacks
// with the same locations, two rows with the same stack and labels, are one, and values add up.
// Stands in model because the pipeline (samples), export (formats in) and query (merge) all build
// profiles.
//
// Memory grows with what is distinct, not with what is added. Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "model/profile.h"

namespace ptarmigan {

class ProfileBuilder {
 public:
  ProfileBuilder();
  ~ProfileBuilder();
  ProfileBuilder(ProfileBuilder&&) noexcept;
  ProfileBuilder& operator=(ProfileBuilder&&) noexcept;

  // For fields that are not interned (header, comments, sample types). Do not touch the tables.
  Profile& profile();
  const Profile& profile() const;

  StringId String(std::string_view text);
  // Index of the type; added if new. Add every type before the first sample.
  size_t SampleType(std::string_view type, std::string_view unit);
  MappingId Mapping(const Profile::Mapping& mapping);
  FunctionId Function(const Profile::Function& function);
  // Equal mapping, address, lines and folding give the same location.
  LocationId Location(const Profile::Location& location, std::span<const Profile::Line> lines);
  // A location that the caller knows to be unlike every other: not looked up, and not found by Location later.
  LocationId AppendLocation(const Profile::Location& location,
                            std::span<const Profile::Line> lines);
  StackId Stack(std::span<const LocationId> frames);
  // A stack that the caller knows to be unlike every other: not looked up, and not found by Stack later.
  StackId AppendStack(std::span<const LocationId> frames);
  // The same for all stacks at once, when there is none yet: stack i is ranges[i] of `frames`.
  void AppendStacks(LargeVector<LocationId> frames, std::vector<Profile::Range> ranges);
  // Labels are put into canonical order; duplicates are kept.
  LabelSetId LabelSet(std::span<const Profile::Label> labels);
  // Adds to the row of (stack, labels); `values` has one entry per sample type.
  void Add(Profile::Sample sample, std::span<const int64_t> values);
  // The same for a (stack, labels) that the caller knows to be new.
  void AppendRow(Profile::Sample sample, std::span<const int64_t> values);

  // The profile; the builder is empty afterwards.
  Profile Finish();

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

// Appends what `source` holds to `builder`, whose sample types must be `types` in this order:
// types[i] is where value i of the source goes. Samples and memory summary: MergeProfiles adds up headers and branches too.
void AddProfile(const Profile& source, std::span<const size_t> types, ProfileBuilder* builder);

}  // namespace ptarmigan
