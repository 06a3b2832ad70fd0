// The page of an html export, built from web/ and carried inside the program.
//
// Threads: any; the bytes are constant and live as long as the program.
#pragma once

#include <string_view>

namespace ptarmigan {

// What an exporter replaces by the profile; the template holds it once (docs/formats/html-data.md).
inline constexpr std::string_view kReportHtmlPlaceholder = "/*PTARMIGAN_PROFILE*/";

// One whole HTML page in UTF-8 with kReportHtmlPlaceholder where the profile goes. Empty if the program was
// built without npm and without PTARMIGAN_WEB_DIST: then kReportHtmlMissing says what to do.
std::string_view ReportHtmlTemplate();

inline constexpr std::string_view kReportHtmlMissing =
    "this ptarmigan was built without its page: build it where npm is installed, or with "
    "-DPTARMIGAN_WEB_DIST=<folder with report.html>";

}  // namespace ptarmigan
