#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "base/str_format.h"
#include "cli/common_options.h"
#include "pipeline/event_table.h"
#include "query/render.h"

namespace ptarmigan::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> inputs;
  std::string view = "top";
  std::string kind;
  size_t limit = 0;  // 0: the view's own default
  double share_min_percent = -1;
  SampleFilter filter;
  bool json = false;
  bool include_suspect = false;
  int32_t thread = -1;
  std::string from;
  std::string to;
  CommonOptions common;
};

constexpr size_t kTopRowsText = 40;
constexpr size_t kBranchRowsText = 40;
constexpr size_t kTreeNodesText = 400;
constexpr double kTreeSharePercentText = 0.5;
constexpr size_t kTimelineRowsText = 200;

Status PrintEvents(const ReportOptions& options) {
  TRY_ASSIGN(const ImportOptions import, MakeImportOptions(options.common));
  EventTableOptions table{.symbolizer = import.symbolizer};
  if (options.kind == "sample") table.kind = EventKind::kSample;
  if (options.kind == "branch") table.kind = EventKind::kBranch;
  if (options.kind == "memory") table.kind = EventKind::kMemory;
  for (const std::string& input : options.inputs) {
    TRY_ASSIGN(const std::unique_ptr<EventSource> source, OpenRecording(input));
    TRY_ASSIGN(const LossLedger losses, WriteEventTable(*source, table, WriteStandardOutput));
    PrintLosses(losses);
  }
  return OkStatus();
}

Status PrintTop(const ReportOptions& options, const Profile& profile, const EntityTable& entities,
                const RenderOptions& render) {
  TRY_ASSIGN(const std::vector<bool> selected, SelectSamples(profile, entities, options.filter));
  TopOptions top_options{.order_by = render.sample_type};
  if (options.limit > 0)
    top_options.rows_max = options.limit;
  else if (!options.json)
    top_options.rows_max = kTopRowsText;
  const TopTable top = MakeTop(profile, entities, selected, top_options);
  return WriteStandardOutput(options.json ? RenderTopJson(profile, entities, top)
                                          : RenderTopText(profile, entities, top, render));
}

Status PrintTree(const ReportOptions& options, const Profile& profile, const EntityTable& entities,
                 const RenderOptions& render) {
  TRY_ASSIGN(const std::vector<bool> selected, SelectSamples(profile, entities, options.filter));
  TreeOptions tree_options{.sample_type = render.sample_type,
                           .from_leaf = options.view == "callers"};
  if (options.limit > 0)
    tree_options.nodes_max = options.limit;
  else if (!options.json)
    tree_options.nodes_max = kTreeNodesText;
  double percent = options.share_min_percent;
  if (percent < 0) percent = options.json ? 0.0 : kTreeSharePercentText;
  tree_options.share_min = percent / 100;
  const CallTree tree = MakeCallTree(profile, entities, selected, tree_options);
  return WriteStandardOutput(options.json
                                 ? RenderTreeJson(profile, entities, tree, render.sample_type)
                                 : RenderTreeText(profile, entities, tree, render));
}

Status PrintMemory(const ReportOptions& options, const Profile& profile,
                   const EntityTable& entities, const RenderOptions& render) {
  TRY_ASSIGN(const std::vector<bool> selected, SelectSamples(profile, entities, options.filter));
  const size_t rows_max = options.limit > 0 ? options.limit
                          : options.json    ? SIZE_MAX
                                            : kTopRowsText;
  const MemoryTable memory = MakeMemoryTable(profile, entities, selected, rows_max);
  return WriteStandardOutput(options.json ? RenderMemoryJson(profile, entities, memory)
                                          : RenderMemoryText(profile, entities, memory, render));
}

Status PrintBranches(const ReportOptions& options, const Profile& profile,
                     const RenderOptions& render) {
  if (profile.summary.branches.empty()) {
    return Error{
        ErrorCode::kInvalidInput,
        "no branch records: the branches view needs recordings with branch stacks of flow mode "
        "(perf record -b)"};
  }
  const size_t rows_default = options.json ? SIZE_MAX : kBranchRowsText;
  std::optional<LocationFilter> filter;
  if (!options.filter.focus.empty() || !options.filter.ignore.empty()) {
    TRY_ASSIGN(filter, LocationFilter::Make(profile, EntityTable(profile), options.filter));
  }
  const BranchReport report =
      MakeBranchReport(profile, options.limit > 0 ? options.limit : rows_default,
                       filter.has_value() ? &*filter : nullptr);
  return WriteStandardOutput(options.json ? RenderBranchesJson(profile, report)
                                          : RenderBranchesText(profile, report, render));
}

Status ChooseTime(const ReportOptions& options, TraceOptions* trace) {
  trace->tid = options.thread;
  if (!options.from.empty()) {
    TRY_ASSIGN(trace->from_ns, ParseMoment(options.from));
  }
  if (!options.to.empty()) {
    TRY_ASSIGN(trace->to_ns, ParseMoment(options.to));
  }
  return OkStatus();
}

Status PrintFlow(const ReportOptions& options, const Profile& profile, const EntityTable& entities,
                 const RenderOptions& render) {
  if (profile.summary.flow.empty()) {
    return Error{ErrorCode::kInvalidInput,
                 "no control-flow trace: this view needs recordings of Intel PT or CoreSight (perf "
                 "record -e intel_pt// or -e cs_etm//)"};
  }
  if (options.view == "flow") {
    return WriteStandardOutput(options.json ? RenderFlowJson(profile)
                                            : RenderFlowText(profile, render));
  }
  TRY_ASSIGN(const LocationFilter filter, LocationFilter::Make(profile, entities, options.filter));
  const auto rows_max = [&](size_t rows_text) {
    return options.limit > 0 ? options.limit : options.json ? SIZE_MAX : rows_text;
  };
  if (options.view == "timeline") {
    TraceOptions part;
    TRY(ChooseTime(options, &part));
    const TimelineReport report =
        MakeTimelineReport(profile, {.rows_max = rows_max(kTimelineRowsText),
                                     .filter = &filter,
                                     .from_ns = part.from_ns,
                                     .to_ns = part.to_ns,
                                     .tid = part.tid});
    return WriteStandardOutput(options.json ? RenderTimelineJson(profile, report)
                                            : RenderTimelineText(profile, report, render));
  }
  const FlowReport report = MakeFlowReport(profile, rows_max(kTopRowsText), &filter);
  return WriteStandardOutput(options.json ? RenderFunctionsJson(profile, report)
                                          : RenderFunctionsText(profile, report, render));
}

Status Report(const ReportOptions& options) {
  if (options.view == "events") return PrintEvents(options);
  TRY_ASSIGN(ImportOptions import, MakeImportOptions(options.common));
  import.pipeline.memory_details = options.view == "memory";
  import.pipeline.trace.digest = options.view == "flow";
  import.pipeline.trace.include_suspect = options.include_suspect;
  import.pipeline.trace.calls = options.view == "functions";
  if (options.view == "timeline") {
    import.pipeline.trace.intervals_max = IntervalsWithin(import, kTimelineIntervalsMax);
    TRY(ChooseTime(options, &import.pipeline.trace));
  }
  TRY_ASSIGN(const Profile profile, ReadProfiles(options.inputs, import));
  RenderOptions render{.colour = UseColour(), .width = TerminalWidth()};
  TRY_ASSIGN(render.sample_type, profile.SampleTypeIndex(options.common.sample_type));
  if (options.view == "top") {
    TRY(PrintTop(options, profile, EntityTable(profile), render));
  } else if (options.view == "memory") {
    TRY(PrintMemory(options, profile, EntityTable(profile), render));
  } else if (options.view == "branches") {
    TRY(PrintBranches(options, profile, render));
  } else if (options.view == "flow" || options.view == "functions" || options.view == "timeline") {
    TRY(PrintFlow(options, profile, EntityTable(profile), render));
  } else if (options.view == "quality") {
    TRY(WriteStandardOutput(options.json ? RenderQualityJson(profile)
                                         : RenderQualityText(profile, render)));
  } else {
    TRY(PrintTree(options, profile, EntityTable(profile), render));
  }
  PrintLosses(profile.losses);
  return OkStatus();
}

}  // namespace

void AddReport(CLI::App* app, VerbFunction* chosen) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* verb = app->add_subcommand("report", "Show what recordings and profiles say");
  verb->add_option("inputs", options->inputs, "Recordings and profiles of any format")
      ->required()
      ->type_name("IN");
  verb->add_option("--view", options->view,
                   "top, tree, callers, branches, memory, flow, functions, timeline, events or "
                   "quality")
      ->check(CLI::IsMember({"top", "tree", "callers", "branches", "memory", "flow", "functions",
                             "timeline", "events", "quality"}))
      ->capture_default_str();
  verb->add_option("--kind", options->kind, "For the events view: sample, branch or memory")
      ->check(CLI::IsMember({"sample", "branch", "memory"}));
  verb->add_option("--limit", options->limit, "At most so many rows");
  verb->add_option("--min-share", options->share_min_percent,
                   "Hide tree branches below this percentage");
  verb->add_option("--focus", options->filter.focus, "Only stacks with a function that matches")
      ->type_name("RE");
  verb->add_option("--ignore", options->filter.ignore, "No stacks with a function that matches")
      ->type_name("RE");
  verb->add_option("--thread", options->thread, "For the timeline: of this thread only")
      ->type_name("TID");
  verb->add_option("--from", options->from,
                   "For the timeline: seconds of the recording's clock, as it prints them")
      ->type_name("T");
  verb->add_option("--to", options->to, "The same: up to then")->type_name("T");
  verb->add_flag("--include-suspect", options->include_suspect,
                 "Parts of a trace that decoded but fail a check, too");
  verb->add_flag("--json", options->json, "JSON instead of text");
  AddCommonOptions(verb, &options->common);
  verb->callback([options, chosen] {
    *chosen = [options] {
      const Status status = Report(*options);
      return status ? kExitDone : Fail(status.error());
    };
  });
}

}  // namespace ptarmigan::cli
