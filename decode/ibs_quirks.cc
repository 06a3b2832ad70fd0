#include <array>
#include <charconv>

#include "decode/ibs.h"

namespace ptarmigan {
namespace {

struct QuirkRow {
  uint32_t family;
  uint32_t first_model;
  uint32_t last_model;
  bool IbsQuirks::*quirk;
};

// Rows that match add up. Revision guides for Family 19h Models 00h-0Fh (56683: 1238, 1293, 1347) and Linux 7.2.
constexpr std::array kQuirks = {
    QuirkRow{0x19, 0x00, 0x0f, &IbsQuirks::void_l2_after_prefetch},
    QuirkRow{0x19, 0x00, 0x0f, &IbsQuirks::void_ic_miss},
    QuirkRow{0x19, 0x00, 0x0f, &IbsQuirks::page_sizes_with_16k},
    QuirkRow{0x19, 0x00, 0x0f, &IbsQuirks::void_cache_hit_state},
    QuirkRow{0x19, 0x20, 0x5f, &IbsQuirks::void_cache_hit_state},
    QuirkRow{0x1a, 0x50, 0x5f, &IbsQuirks::fetch_needs_physical},
    QuirkRow{0x1a, 0x80, 0xaf, &IbsQuirks::fetch_needs_physical},
    QuirkRow{0x1a, 0xc0, 0xcf, &IbsQuirks::fetch_needs_physical},
};
// Later families all do.
constexpr uint32_t kLastFamilyInTable = 0x1a;

// "25,17,1": the number before the first comma.
std::optional<uint32_t> TakeNumber(std::string_view* text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc()) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  if (!text->empty()) {
    if (text->front() != ',') return std::nullopt;
    text->remove_prefix(1);
  }
  return number;
}

}  // namespace

std::optional<AmdModel> AmdModelOf(std::string_view cpuid) {
  const size_t comma = cpuid.find(',');
  const std::string_view vendor = cpuid.substr(0, comma);
  if (comma == std::string_view::npos || (vendor != "AuthenticAMD" && vendor != "HygonGenuine")) {
    return std::nullopt;
  }
  cpuid.remove_prefix(comma + 1);
  const std::optional<uint32_t> family = TakeNumber(&cpuid);
  const std::optional<uint32_t> model = family ? TakeNumber(&cpuid) : std::nullopt;
  if (!model) return std::nullopt;
  return AmdModel{.family = *family, .model = *model};
}

IbsQuirks IbsQuirksOf(std::optional<AmdModel> model) {
  IbsQuirks quirks;
  if (!model) return quirks;
  for (const QuirkRow& row : kQuirks) {
    if (model->family == row.family && model->model >= row.first_model &&
        model->model <= row.last_model) {
      quirks.*row.quirk = true;
    }
  }
  if (model->family > kLastFamilyInTable) quirks.fetch_needs_physical = true;
  return quirks;
}

}  // namespace ptarmigan
