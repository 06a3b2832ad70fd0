// PgoObject: one object of a profile with its control flow and its code's lines, ready for the PGO formats. Finds the
// object's file and debug file by the rules of Symbolizer, turns locations back into the file's addresses, and reads the
// code to know where instructions and basic blocks end.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "model/code_lines.h"
#include "model/object_branches.h"
#include "model/profile.h"
#include "symbolize/symbolizer.h"

namespace ptarmigan {

class PgoObject {
 public:
  // `binary` chooses the object: a path (its file is read from there if it exists), a file name, or a build id of at
  // least 8 digits; empty: the file with the most branches. kInvalidInput if the profile has no branch records, or none
  // of that object (the error lists those with some); kNotFound if the object's file is needed and not there.
  static Result<PgoObject> Select(const Profile& profile, const std::string& binary,
                                  const SymbolizerOptions& symbols);
  PgoObject(PgoObject&&) noexcept;
  PgoObject& operator=(PgoObject&&) noexcept;
  ~PgoObject();

  const ObjectBranches& branches() const { return branches_; }
  // Valid as long as this object.
  CodeLines* lines() const { return lines_.get(); }

 private:
  PgoObject();

  // In this order: the later ones refer to the earlier.
  std::unique_ptr<CodeObject> object_;
  std::unique_ptr<Symbolizer> symbolizer_;
  std::unique_ptr<CodeLines> lines_;
  ObjectBranches branches_;
};

}  // namespace ptarmigan
