#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace antiphon::report {
namespace {

std::string Note(std::string_view note) {
  return note.empty() ? std::string() : fmt::format("<p class=\"note\">{}</p>", EscapeHtml(note));
}

std::string Card(std::string_view css, std::string_view title, std::string_view inner, std::string_view note) {
  return fmt::format("<section class=\"card {}\"><h3>{}</h3>{}{}</section>\n", css, EscapeHtml(title), inner,
                     Note(note));
}

std::string WordHtml(const AlignedText::Word& word) {
  switch (word.kind) {
    case AlignedText::Kind::kCorrect:
      return EscapeHtml(word.reference);
    case AlignedText::Kind::kSubstitution:
      return fmt::format("<span class=\"sub\"><del>{}</del><ins>{}</ins></span>", EscapeHtml(word.reference),
                         EscapeHtml(word.hypothesis));
    case AlignedText::Kind::kInsertion:
      return fmt::format("<ins>{}</ins>", EscapeHtml(word.hypothesis));
    case AlignedText::Kind::kDeletion:
      return fmt::format("<del>{}</del>", EscapeHtml(word.reference));
  }
  return {};
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = FirstCodePoint(text).bytes;
    const char c = text[0];
    if (length == 0 || (length == 1 && static_cast<uint8_t>(c) < 0x20 && c != '\n' && c != '\t')) {
      out += "\xEF\xBF\xBD";
    } else if (length > 1) {
      out += text.substr(0, length);
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += c;
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

HtmlReport::HtmlReport(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void HtmlReport::AddFigures(const std::vector<Figure>& figures) {
  body_ += "<div class=\"figures\">";
  for (const Figure& figure : figures) {
    body_ += fmt::format(
        "<div class=\"figure\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div "
        "class=\"remark\">{}</div></div>",
        EscapeHtml(figure.label), EscapeHtml(figure.value), EscapeHtml(figure.remark));
  }
  body_ += "</div>\n";
}

void HtmlReport::AddSection(std::string_view title) { body_ += fmt::format("<h2>{}</h2>\n", EscapeHtml(title)); }

void HtmlReport::AddParagraph(std::string_view text) {
  body_ += fmt::format("<p class=\"wide\">{}</p>\n", EscapeHtml(text));
}

void HtmlReport::AddWarning(std::string_view text) {
  body_ += fmt::format("<p class=\"wide warning\">{}</p>\n", EscapeHtml(text));
}

void HtmlReport::AddLineChart(const LineChart& chart) {
  body_ += Card("", chart.title, internal::RenderLineChart(chart), chart.note);
}

void HtmlReport::AddShareBars(const ShareBars& bars, bool wide) {
  body_ += Card(wide ? "wide" : "", bars.title, internal::RenderShareBars(bars), bars.note);
}

void HtmlReport::AddHeatMap(const HeatMap& map) {
  body_ += Card("wide", map.title, "<div class=\"across\">" + internal::RenderHeatMap(map) + "</div>", map.note);
}

void HtmlReport::AddTable(const Table& table, bool wide) {
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  const auto css = [&](size_t column) {
    return column < table.numeric.size() && table.numeric[column] ? " class=\"num\"" : "";
  };
  for (size_t c = 0; c < table.header.size(); ++c) {
    html += fmt::format("<th{}>{}</th>", css(c), EscapeHtml(table.header[c]));
  }
  html += "</tr></thead><tbody>";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (size_t c = 0; c < row.size(); ++c) html += fmt::format("<td{}>{}</td>", css(c), EscapeHtml(row[c]));
    html += "</tr>\n";
  }
  html += "</tbody></table></div>";
  body_ += Card(wide ? "wide" : "", table.title, html, table.note);
}

void HtmlReport::AddAlignedTexts(std::string_view title, const std::vector<AlignedText>& texts, std::string_view note) {
  std::string html =
      "<p class=\"note\">Plain: recognised as said. <del>struck out</del>: said, not recognised. "
      "<ins>underlined</ins>: "
      "recognised, not said.</p><div class=\"texts\">";
  for (const AlignedText& text : texts) {
    html += fmt::format("<div class=\"text\"><div class=\"utt\"><b>{}</b> {}</div><div>", EscapeHtml(text.name),
                        EscapeHtml(text.remark));
    for (const auto& word : text.words) html += WordHtml(word) + " ";
    html += "</div></div>\n";
  }
  body_ += Card("wide", title, html + "</div>", note);
}

void HtmlReport::AddText(std::string_view title, std::string_view text, bool open) {
  body_ += fmt::format("<details class=\"card wide\"{}><summary>{}</summary><pre>{}</pre></details>\n",
                       open ? " open" : "", EscapeHtml(title), EscapeHtml(text));
}

std::string HtmlReport::Render() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0} – "
      "{1}</title>\n<style>{2}</style></head>\n<body>\n"
      "<header><h1>{0}</h1><p>{1}</p></header>\n<main>\n{3}</main>\n<div id=\"tip\" "
      "hidden></div>\n<script>{4}</script>\n"
      "</body></html>\n",
      EscapeHtml(title_), EscapeHtml(subtitle_), internal::PageStyle(), body_, internal::PageScript());
}

}  // namespace antiphon::report
