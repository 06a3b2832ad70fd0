// Walks through a PtProgram for PtWalk. Part of pt_walk.cc, apart for its length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>
#include <vector>

#include "tests/encoders/pt_walk.h"

namespace ptarmigan {

class PtInterpreter {
 public:
  explicit PtInterpreter(PtWalk* walk);

  void Run();

 private:
  struct Place {
    uint32_t block = 0;
    uint32_t index = 0;  // of the instruction in it
  };
  // A running function.
  struct Activation {
    uint32_t callers = PtWalk::kRootPath;          // path of those below it
    uint32_t serial = 0;                           // differs for each
    std::array<uint16_t, kPtLoopsMax> loops = {};  // rounds left + 1; 0: not begun
  };
  struct Frame {
    enum class Kind : uint8_t { kCall, kSignal, kRestorer, kKernel, kCoroutine };
    static constexpr uint32_t kNoCall = UINT32_MAX;
    Kind kind = Kind::kCall;
    Place resume;
    Activation caller;
    uint32_t call_block = PtBlock::kNone;  // kCall
    uint32_t call = kNoCall;               // index into PtWalk::calls()
  };
  struct SetJump {
    uint32_t serial = 0;
    size_t stack = 0;
    size_t depth = 0;  // frames below the caller of setjmp
    Place resume;
  };
  struct Thread {
    Place place;
    Activation activation;
    std::vector<std::vector<Frame>> stacks;  // of main and the coroutines
    size_t stack = 0;                        // the one in use
    std::vector<SetJump> set_jumps;
    bool in_kernel = false;
    bool signal_waits = false;  // delivered when the kernel returns
    size_t depth_limit = 0;     // for recursion
  };

  uint64_t Random(uint64_t below) { return random_() % below; }
  bool Chance(unsigned percent) { return Random(100) < percent; }
  const PtBlock& block() const { return program_.blocks()[thread_->place.block]; }
  std::vector<Frame>& frames() { return thread_->stacks[thread_->stack]; }
  uint64_t AddressOf(const Place& place) const;
  PtStep& step() { return walk_->steps_.back(); }
  uint32_t PathNode(const PtPath& path);
  // Of the running function; with an address: of it as a caller that control comes back to there.
  uint32_t PathHere(uint64_t return_address = 0) {
    return PathNode({thread_->activation.callers, block().function, return_address});
  }
  size_t AfterSome(size_t apart);

  void StartThread(Thread* thread);
  void Step();
  void Record();
  void AdvanceTime(const X86Instruction& instruction);
  void Transfer();
  bool TakesBranch();
  bool HasLanding(const Frame& frame) const;
  void GoTo(uint32_t block);
  void GoBehind();
  void Call();
  void Enter(uint32_t function, Frame frame, PtCall::Kind kind);
  void Return();
  void Pop();
  void Jump();
  void LongJump();
  void Throw();
  void CutTo(size_t depth);
  void SwitchStack();
  void SystemCall();
  void FinishSystemCall(PtAction action);
  void Compile();
  bool FindFreeSlot(uint32_t* slot);
  void EnterKernel(uint32_t function);
  void SystemReturn();
  void DeliverSignal();
  int64_t SignalsBelow();
  void Disturb();
  void EndTurn();

  PtWalk* walk_;
  const PtProgram& program_;
  const PtWalkOptions& options_;
  std::mt19937_64 random_;
  std::vector<Thread> threads_;
  Thread* thread_ = nullptr;
  uint8_t cpu_ = 0;
  uint64_t tsc_;
  uint32_t serials_ = 0;
  struct PathHash {
    size_t operator()(const PtPath& path) const {
      constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;
      return ((path.parent * kMultiplier + path.function) * kMultiplier + path.return_address) *
                 kMultiplier >>
             16;
    }
  };
  std::unordered_map<PtPath, uint32_t, PathHash> path_nodes_;
  std::vector<uint32_t> entered_calls_;  // whose first step is the next one
  std::vector<uint32_t> left_calls_;     // whose first step afterwards is the next one
  std::vector<uint32_t> versions_;       // of JIT slots
  size_t until_signal_ = 0;
  size_t until_interrupt_ = 0;
  size_t until_turn_ends_ = 0;
  PtAction after_kernel_ = PtAction::kNone;
};

}  // namespace ptarmigan
