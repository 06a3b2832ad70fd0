#include <string>

#include "base/str_format.h"
#include "query/internal/json_parts.h"
#include "query/internal/text_parts.h"
#include "query/render.h"

namespace ptarmigan {
namespace {

using internal::BaseName;
using internal::Json;
using internal::kBold;
using internal::kDim;
using internal::Shorten;
using internal::Styled;
using internal::WithThousands;

Json BytesJson(const FlowBytes& bytes) {
  Json json;
  json["decoded"] = bytes.decoded;
  json["before_sync"] = bytes.before_sync;
  json["after_error"] = bytes.after_error;
  json["overflow"] = bytes.overflow;
  json["no_image"] = bytes.no_image;
  json["padding"] = bytes.padding;
  json["dropped"] = bytes.dropped;
  return json;
}

Json ThreadJson(const FlowSummary::Thread& thread) {
  Json json;
  json["pid"] = thread.pid;
  json["tid"] = thread.tid;
  json["cpu"] = thread.cpu ? Json(*thread.cpu) : Json();
  json["instructions"] = thread.instructions;
  json["blocks"] = thread.blocks;
  json["branches"] = thread.branches;
  json["ip_digest"] = thread.ip_digest ? Json(StrFormat("{:016x}", *thread.ip_digest)) : Json();
  json["calls"] = thread.calls;
  json["returns"] = thread.returns;
  json["segments"] = {
      {"verified", thread.verified}, {"suspect", thread.suspect}, {"bad", thread.bad}};
  json["bytes"] = BytesJson(thread.bytes);
  json["gaps"] = Json::object();
  for (const auto& [reason, count] : thread.gaps) json["gaps"][reason] = count;
  json["errors"] = Json::array();
  for (const FlowSummary::Error& error : thread.errors) {
    json["errors"].push_back(
        {{"offset", error.offset}, {"code", error.code}, {"reason", error.reason}});
  }
  if (thread.errors_cut > 0) json["errors_cut"] = thread.errors_cut;
  return json;
}

// "96.3 % of 1,234 bytes decoded; 12 before the first synchronisation point, ..."
std::string BytesText(const FlowBytes& bytes) {
  const uint64_t sum = bytes.Sum();
  if (sum == 0) return "no bytes";
  std::string text = StrFormat(
      "{:.1f} % of {} bytes decoded",
      100.0 * static_cast<double>(bytes.decoded) / static_cast<double>(sum), WithThousands(sum));
  const auto add = [&](uint64_t count, std::string_view words) {
    if (count > 0) text += StrFormat("; {} {}", WithThousands(count), words);
  };
  add(bytes.before_sync, "before the first synchronisation point");
  add(bytes.after_error, "after errors");
  add(bytes.overflow, "of overflows");
  add(bytes.no_image, "of code that is not at hand");
  add(bytes.padding, "padding");
  add(bytes.dropped, "dropped for memory");
  return text;
}

}  // namespace

std::string RenderFlowText(const Profile& profile, const RenderOptions& options) {
  std::string text = Styled(
      kBold,
      StrFormat("{:>8} {:>8} {:>16} {:>14} {:>12} {:>12}  {}\n", "pid", "tid", "instructions",
                "branches", "calls", "returns", "segments: verified, suspect, bad"),
      options);
  for (const FlowSummary::Thread& thread : profile.summary.flow.threads) {
    text += StrFormat("{:>8} {:>8} {:>16} {:>14} {:>12} {:>12}  {}, {}, {}\n", thread.pid,
                      thread.tid, WithThousands(thread.instructions),
                      WithThousands(thread.branches), WithThousands(thread.calls),
                      WithThousands(thread.returns), thread.verified, thread.suspect, thread.bad);
    std::string detail = "  " + BytesText(thread.bytes);
    for (const auto& [reason, count] : thread.gaps) {
      detail += StrFormat("; {} x {}", WithThousands(count), reason);
    }
    if (thread.ip_digest) detail += StrFormat("; digest {:016x}", *thread.ip_digest);
    text += Styled(kDim, detail + "\n", options);
    for (const FlowSummary::Error& error : thread.errors) {
      text += StrFormat("  at byte {}: {}\n", WithThousands(error.offset), error.reason);
    }
    if (thread.errors_cut > 0) {
      text += StrFormat("  and {} more\n", WithThousands(thread.errors_cut));
    }
  }
  for (const auto& [object, bytes] : profile.summary.flow.missing_code) {
    text += StrFormat("code of {} is missing: {} bytes of trace lead into it (--binary-path)\n",
                      object.empty() ? "unmapped memory" : object, WithThousands(bytes));
  }
  return text;
}

std::string RenderFlowJson(const Profile& profile) {
  Json json;
  json["source"] = profile.summary.flow.source;
  json["threads"] = Json::array();
  for (const FlowSummary::Thread& thread : profile.summary.flow.threads) {
    json["threads"].push_back(ThreadJson(thread));
  }
  json["missing_code"] = Json::array();
  for (const auto& [object, bytes] : profile.summary.flow.missing_code) {
    json["missing_code"].push_back({{"object", object}, {"bytes", bytes}});
  }
  json["events"] = internal::EventsJson(profile);
  return internal::DumpJson(json);
}

}  // namespace ptarmigan
