#include "report/html.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

namespace antiphon::report {
namespace {

HtmlReport FullPage() {
  HtmlReport page("Training <b>", "runs/\"digits\" & more");
  page.AddFigures({{"Frame accuracy", "71.3 %", "held-out"}});
  page.AddSection("Curves");
  page.AddParagraph("text");
  page.AddWarning("fell back");
  page.AddLineChart({.title = "Loss",
                     .x_label = "epoch",
                     .series = {{"training", {{1, 2.0}, {2, std::nan("")}, {3, 1.0}}}, {"</svg><script>", {{1, 3}}}}});
  page.AddShareBars({"Time", {"arithmetic", "data"}, {{"epoch 1", {95, 5}}}, "s", ""});
  page.AddHeatMap({"Phones", "said", "heard", {"aa", "b"}, {{9, 1}, {0, 0}}, ""});
  page.AddTable({"Table", {"a", "b"}, {{"<x>", "1"}}, {false, true}, ""});
  page.AddAlignedTexts("Errors", {{"utt-1",
                                   "1 error",
                                   {{AlignedText::Kind::kCorrect, "one", "one"},
                                    {AlignedText::Kind::kSubstitution, "two", "too"},
                                    {AlignedText::Kind::kDeletion, "three", ""},
                                    {AlignedText::Kind::kInsertion, "", "<oh>"}}}});
  page.AddText("config.toml", "[a]\nb = \"<c>\"");
  return page;
}

TEST(HtmlReport, RefersToNothingOutside) {
  const std::string html = FullPage().Render();
  EXPECT_FALSE(std::regex_search(html, std::regex("(https?:)?//[a-zA-Z0-9]"))) << "an address";
  EXPECT_FALSE(std::regex_search(html, std::regex("\\b(src|href|xlink:href|action)\\s*=", std::regex::icase)));
  EXPECT_FALSE(std::regex_search(html, std::regex("@import|url\\(|fetch\\(|XMLHttpRequest|import\\(")));
}

TEST(HtmlReport, EscapesWhateverItIsGiven) {
  const std::string html = FullPage().Render();
  EXPECT_NE(html.find("Training &lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("runs/&quot;digits&quot; &amp; more"), std::string::npos);
  EXPECT_EQ(html.find("<x>"), std::string::npos);
  EXPECT_EQ(html.find("<oh>"), std::string::npos);
  EXPECT_EQ(html.find("</svg><script>"), std::string::npos);
  EXPECT_EQ(EscapeHtml("a\x01\xff\xc3\xa9"), "a\xEF\xBF\xBD\xEF\xBF\xBD\xc3\xa9");
}

TEST(HtmlReport, ElementsAreBalanced) {
  const std::string html = FullPage().Render();
  const std::string body = html.substr(html.find("<body>"));
  for (const char* tag :
       {"section", "div", "svg", "table", "tr", "td", "th", "span", "p", "details", "pre", "del", "ins"}) {
    const std::regex open(std::string("<") + tag + "[\\s>]");
    const std::regex close(std::string("</") + tag + ">");
    const auto count = [&](const std::regex& r) {
      return std::distance(std::sregex_iterator(body.begin(), body.end(), r), std::sregex_iterator());
    };
    EXPECT_EQ(count(open), count(close)) << tag;
  }
}

TEST(LineChart, BreaksTheLineAtNonFinitePointsAndSurvivesNoPoints) {
  const std::string svg =
      internal::RenderLineChart({.title = "t", .series = {{"a", {{1, 1}, {2, std::nan("")}, {3, INFINITY}, {4, 2}}}}});
  const size_t path = svg.find(" d=\"");
  ASSERT_NE(path, std::string::npos);
  const std::string d = svg.substr(path, svg.find('"', path + 4) - path);
  EXPECT_EQ(std::count(d.begin(), d.end(), 'M'), 2) << d;
  EXPECT_EQ(d.find("nan"), std::string::npos);
  EXPECT_EQ(internal::RenderLineChart({.title = "t"}).find("nan"), std::string::npos);
  EXPECT_EQ(internal::RenderLineChart({.title = "t", .series = {{"a", {{1, 0}}}}, .log_y = true}).find("inf"),
            std::string::npos);
}

// A chart is drawn 560 units wide and shrinks with its card; its letters may not.
TEST(LineChart, LabelsStayReadableInCardsOfAnyWidth) {
  const std::string css(internal::PageStyle());
  std::smatch plain;
  ASSERT_TRUE(std::regex_search(css, plain, std::regex("svg text\\{font:([0-9.]+)px")));
  std::map<double, double> size_up_to;  // by the widest card that it holds for
  const std::regex rule("@container \\(max-width:([0-9.]+)px\\)\\{svg.lines text\\{font-size:([0-9.]+)px");
  for (auto it = std::sregex_iterator(css.begin(), css.end(), rule); it != std::sregex_iterator(); ++it) {
    size_up_to[std::stod((*it)[1])] = std::stod((*it)[2]);
  }
  for (double width = 290; width <= 1200; ++width) {
    const auto found = size_up_to.lower_bound(width);
    const double size = found == size_up_to.end() ? std::stod(plain[1]) : found->second;
    EXPECT_GE(size * width / 560, 9) << width;
  }
  EXPECT_NE(internal::RenderLineChart({}).find("<svg class=\"lines\""), std::string::npos);
}

TEST(LineChart, TicksAreRoundAndCoverTheData) {
  EXPECT_EQ(internal::NiceTicks(0.0, 10.0, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  const auto ticks = internal::NiceTicks(0.113, 0.678, 5);
  EXPECT_LE(ticks.front(), 0.113);
  EXPECT_GE(ticks.back(), 0.678);
  EXPECT_EQ(internal::FormatTick(0.2, 0.1), "0.2");
  EXPECT_EQ(internal::FormatTick(250000, 50000), "250 k");
  EXPECT_EQ(internal::FormatTick(0, 50000), "0");
}

TEST(HeatMap, ColoursEachRowByItsOwnShares) {
  const std::string svg = internal::RenderHeatMap({"t", "said", "heard", {"a", "b"}, {{90, 10}, {0, 3}}, ""});
  EXPECT_NE(svg.find("a recognised as b: 10.0 % of 100"), std::string::npos);
  EXPECT_NE(svg.find("b recognised as b: 100.0 % of 3"), std::string::npos);
  EXPECT_EQ(svg.find("b recognised as a"), std::string::npos);
}

}  // namespace
}  // namespace antiphon::report
