// The walkers: by libipt alone, by our own walk first, and by both.
#include <utility>

#include "base/str_format.h"
#include "decode/internal/flow_difference.h"
#include "decode/internal/flow_merger.h"
#include "decode/internal/pt_fast_walk.h"
#include "decode/internal/pt_libipt_walk.h"
#include "decode/internal/pt_walker.h"

namespace ptarmigan::internal {
namespace {

class LibiptWalker : public PtWalker {
 public:
  LibiptWalker(const PtConfig& config, const pt_config& base, const PtOptions& options)
      : options_(options), walk_(config, options_), by_libipt_(base, options_, &walk_) {}

  bool Open() { return by_libipt_.Open(); }
  void Walk(const PtSegmentTask& task, PtWalkResult* result) override {
    walk_.Begin(task, result);
    by_libipt_.Walk(result);
  }

 private:
  const PtOptions options_;
  PtSegmentWalk walk_;
  LibiptWalk by_libipt_;
};

class FastWalker : public PtWalker {
 public:
  FastWalker(const PtConfig& config, const pt_config& base, const PtOptions& options)
      : options_(options),
        walk_(config, options_),
        fast_(options_, HasOddOverflows(base), &walk_),
        by_libipt_(base, options_, &walk_) {}

  bool Open() { return by_libipt_.Open(); }
  void Walk(const PtSegmentTask& task, PtWalkResult* result) override {
    walk_.Begin(task, result);
    if (fast_.Walk()) return;
    walk_.BeginAgain();
    by_libipt_.Walk(result);
    result->counts.by_libipt = true;
  }

 private:
  static bool HasOddOverflows(const pt_config& base) {
    return base.errata.skd010 != 0 || base.errata.apl11 != 0 || base.errata.apl12 != 0;
  }

  const PtOptions options_;
  PtSegmentWalk walk_;
  PtFastWalk fast_;
  LibiptWalk by_libipt_;
};

// What the first says counts.
class BothWalker : public PtWalker {
 public:
  BothWalker(const PtConfig& config, const pt_config& base, const PtOptions& options)
      : fast_(config, base, options), libipt_(config, base, options) {}

  bool Open() { return fast_.Open() && libipt_.Open(); }
  void Walk(const PtSegmentTask& task, PtWalkResult* result) override {
    fast_.Walk(task, result);
    libipt_.Walk(task, &other_);
    fast_graph_.Learn(0, result->graph);
    libipt_graph_.Learn(0, other_.graph);
    if (result->size != other_.size) {
      result->difference = StrFormat("{} and {} parts", result->size, other_.size);
      return;
    }
    const bool bad = other_.parts[0]->trust == FlowTrust::kBad;
    if (!bad &&
        (result->ended_well != other_.ended_well || result->began_tracing != other_.began_tracing ||
         result->ended_tracing != other_.ended_tracing ||
         result->counts.overflows != other_.counts.overflows)) {
      result->difference = "the states at the ends differ";
    }
    for (size_t i = 0; i < result->size && result->difference.empty(); ++i) {
      copy_ = *result->parts[i];
      fast_graph_.Merge(0, &copy_);
      libipt_graph_.Merge(0, other_.parts[i].get());
      // How far libipt comes before an error depends on what it has seen before.
      if (copy_.trust == FlowTrust::kBad && other_.parts[i]->trust == FlowTrust::kBad) continue;
      result->difference =
          FlowDifference({fast_graph_.graph(), copy_}, {libipt_graph_.graph(), *other_.parts[i]});
    }
  }

 private:
  FastWalker fast_;
  LibiptWalker libipt_;
  PtWalkResult other_;
  FlowSegment copy_;
  FlowMerger fast_graph_{1};
  FlowMerger libipt_graph_{1};
};

template <typename Walker>
class Walkers : public PtWalkerFactory {
 public:
  Walkers(const PtConfig& config, const PtOptions& options)
      : config_(config), options_(options), base_(LibiptConfig(config, &knows_cpu_)) {}
  bool knows_cpu() const override { return knows_cpu_; }
  Result<std::unique_ptr<PtWalker>> Make() override {
    auto walker = std::make_unique<Walker>(config_, base_, options_);
    if (!walker->Open()) {
      return Error{ErrorCode::kResourceLimit, "libipt cannot make a decoder"};
    }
    return std::unique_ptr<PtWalker>(std::move(walker));
  }

 private:
  PtConfig config_;
  PtOptions options_;
  bool knows_cpu_ = false;
  pt_config base_;
};

}  // namespace

std::unique_ptr<PtWalkerFactory> MakePtWalkers(const PtConfig& config, const PtOptions& options) {
  switch (options.walker) {
    case PtWalkerKind::kLibipt:
      return std::make_unique<Walkers<LibiptWalker>>(config, options);
    case PtWalkerKind::kBoth:
      return std::make_unique<Walkers<BothWalker>>(config, options);
    case PtWalkerKind::kFast:
      break;
  }
  return std::make_unique<Walkers<FastWalker>>(config, options);
}

}  // namespace ptarmigan::internal
