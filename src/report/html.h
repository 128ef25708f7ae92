// One self-contained HTML page that a person looks at: figures, charts, tables, examples. No network, no other file.
//
// A page is built element by element, top down; elements sit in a grid of two columns unless they are wide. Charts are
// SVG with colours from the style sheet (light and dark), and a small script shows the values under the pointer;
// without script everything is still there. All text is escaped here: pass it raw.
//
//   HtmlReport page("Training", "runs/digits");
//   page.AddFigures({{"Frame accuracy", "71.3 %", "held-out"}});
//   page.AddLineChart({.title = "Loss", .x_label = "epoch", .series = {{"training", train}, {"held-out", dev}}});
//   WriteFileAtomically(path, page.Render());
//
// Non-finite points are gaps in a line. Threads: one thread per page. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace antiphon::report {

/// &, <, >, " and ' as entities; other control characters and broken UTF-8 as a replacement character.
std::string EscapeHtml(std::string_view text);

/// A number in large print with what it is and a remark.
struct Figure {
  std::string label{};
  std::string value{};
  std::string remark{};
};

struct Series {
  std::string name{};
  std::vector<std::pair<double, double>> points{};  // (x, y), x ascending
  bool dashed = false;
  bool markers = false;
  bool line = true;  // false: markers alone, for points that do not follow one another
};

struct LineChart {
  std::string title{};
  std::string x_label{};
  std::string y_label{};
  std::vector<Series> series{};
  bool log_y = false;
  std::string note{};
  bool log_x = false;
};

/// Shares of a whole, one bar per row.
struct ShareBars {
  struct Row {
    std::string name{};
    std::vector<double> values{};  // one per part, any unit
  };
  std::string title{};
  std::vector<std::string> parts{};
  std::vector<Row> rows{};
  std::string unit{};  // for the values that are shown with the shares
  std::string note{};
};

/// Counts [row][column]; each row is coloured by its shares.
struct HeatMap {
  std::string title{};
  std::string row_label{};
  std::string column_label{};
  std::vector<std::string> names{};  // of rows and columns
  std::vector<std::vector<double>> counts{};
  std::string note{};
};

struct Table {
  std::string title{};
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};
  std::vector<bool> numeric{};  // per column: set in figures of equal width, to the right; missing means text
  std::string note{};
};

/// One utterance's recognised words against what was said.
struct AlignedText {
  enum class Kind { kCorrect, kSubstitution, kInsertion, kDeletion };
  struct Word {
    Kind kind;
    std::string reference{};
    std::string hypothesis{};
  };
  std::string name{};    // utt_id
  std::string remark{};  // "3 errors in 12 words"
  std::vector<Word> words{};
};

class HtmlReport {
 public:
  HtmlReport(std::string title, std::string subtitle);

  void AddFigures(const std::vector<Figure>& figures);
  /// A heading; what follows belongs to it.
  void AddSection(std::string_view title);
  void AddParagraph(std::string_view text);
  /// A remark that must not be overlooked: training fell back to an earlier state, a figure is simulated …
  void AddWarning(std::string_view text);
  void AddLineChart(const LineChart& chart);
  void AddShareBars(const ShareBars& bars, bool wide = false);
  void AddHeatMap(const HeatMap& map);
  void AddTable(const Table& table, bool wide = false);
  void AddAlignedTexts(std::string_view title, const std::vector<AlignedText>& texts, std::string_view note = {});
  /// Preformatted text behind a fold: configuration, versions.
  void AddText(std::string_view title, std::string_view text, bool open = false);

  std::string Render() const;

 private:
  std::string title_;
  std::string subtitle_;
  std::string body_;
};

namespace internal {
std::string RenderLineChart(const LineChart& chart);
std::string RenderShareBars(const ShareBars& bars);
std::string RenderHeatMap(const HeatMap& map);
/// Style sheet and script of the page.
std::string_view PageStyle();
std::string_view PageScript();
/// Round steps that cover [low, high] in about `count` parts; at least two values.
std::vector<double> NiceTicks(double low, double high, int count);
/// Shortest usual form for an axis whose neighbouring ticks are `step` apart.
std::string FormatTick(double value, double step);
}  // namespace internal

}  // namespace antiphon::report
