#include "web/embedded.h"

#include <cstddef>

// Defined by the assembler, around the bytes of report.html.
extern "C" {
extern const char ptarmigan_report_html_begin[];
extern const char ptarmigan_report_html_end[];
}

namespace ptarmigan {

std::string_view ReportHtmlTemplate() {
  return {ptarmigan_report_html_begin,
          static_cast<std::size_t>(ptarmigan_report_html_end - ptarmigan_report_html_begin)};
}

}  // namespace ptarmigan
