#include "web/embedded.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace ptarmigan {
namespace {

#ifdef PTARMIGAN_REPORT_HTML

TEST(ReportHtmlTemplate, IsTheBuiltPageByteForByte) {
  std::ifstream file(PTARMIGAN_REPORT_HTML, std::ios::binary);
  ASSERT_TRUE(file) << PTARMIGAN_REPORT_HTML;
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_EQ(ReportHtmlTemplate(), page);
}

TEST(ReportHtmlTemplate, HasOnePlaceForAProfileInsideAScriptOfItsOwn) {
  const std::string_view page = ReportHtmlTemplate();
  const std::string place = "<script id=\"ptarmigan-profile\" type=\"application/json\">" +
                            std::string(kReportHtmlPlaceholder) + "</script>";
  const std::size_t at = page.find(place);
  ASSERT_NE(at, std::string_view::npos);
  EXPECT_EQ(page.find(kReportHtmlPlaceholder), page.rfind(kReportHtmlPlaceholder));
  // The program that reads the profile comes after it.
  EXPECT_GT(page.find("<script type=\"module\">"), at);
}

TEST(ReportHtmlTemplate, LoadsNothing) {
  const std::string_view page = ReportHtmlTemplate();
  EXPECT_NE(page.find("default-src 'none'"), std::string_view::npos);
  EXPECT_EQ(page.find("src=\""), std::string_view::npos);
}

#else

TEST(ReportHtmlTemplate, IsEmptyWithoutNpmAndSaysWhatToDo) {
  EXPECT_TRUE(ReportHtmlTemplate().empty());
  EXPECT_NE(kReportHtmlMissing.find("PTARMIGAN_WEB_DIST"), std::string_view::npos);
}

#endif

}  // namespace
}  // namespace ptarmigan
