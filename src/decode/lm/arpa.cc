#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/gzip.h"
#include "base/utf8.h"
#include "decode/lm/ngram.h"

namespace antiphon::decode {
namespace {

constexpr float kLog10 = 2.302585093F;
constexpr std::string_view kBlanks = " \t\r";

// Cuts an ARPA text into lines and fields, and knows where it is.
class ArpaLines {
 public:
  ArpaLines(std::string_view text, const std::string& source) : rest_(text), source_(source) {}

  /// The next line that is not blank, trimmed; false at the end.
  bool Next() {
    while (!rest_.empty()) {
      ++number_;
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = Composed(rest_.substr(0, end));
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      const size_t first = line_.find_first_not_of(kBlanks);
      if (first == std::string_view::npos) continue;
      line_ = line_.substr(first, line_.find_last_not_of(kBlanks) + 1 - first);
      return true;
    }
    return false;
  }
  std::string_view line() const { return line_; }

  /// Fields of the line; at most as many as the array holds, one more means too many.
  size_t Split(std::span<std::string_view> fields) const {
    size_t count = 0;
    for (size_t at = 0; at < line_.size();) {
      const size_t end = std::min(line_.find_first_of(kBlanks, at), line_.size());
      if (count == fields.size()) return count + 1;
      fields[count++] = line_.substr(at, end - at);
      at = std::min(line_.find_first_not_of(kBlanks, end), line_.size());
    }
    return count;
  }

  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw<InputError>("{}:{}: {}", source_, number_, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string_view Composed(std::string_view line) {
    composed_ = WithContext([&] { return ComposeUtf8(line); }, [&] { return fmt::format("{}:{}", source_, number_); });
    return composed_;
  }

  std::string_view rest_, line_;
  std::string composed_;
  const std::string& source_;
  int64_t number_ = 0;
};

float ParseLog(const ArpaLines& lines, std::string_view field) {
  float value = 0.0F;
  if (field.starts_with('+')) field.remove_prefix(1);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || std::isnan(value)) {
    lines.Fail("expected a base-10 logarithm, found '{}'", field);
  }
  // Minus infinity and the customary -99 both mean "never".
  return std::max(value, -99.0F) * kLog10;
}

std::vector<int64_t> ReadCounts(ArpaLines& lines) {
  while (lines.Next() && lines.line() != "\\data\\") {
  }
  if (lines.line() != "\\data\\") lines.Fail("this is no ARPA language model: there is no line \\data\\");
  std::vector<int64_t> counts;
  while (lines.Next() && lines.line().starts_with("ngram")) {
    std::string text;
    std::copy_if(lines.line().begin() + 5, lines.line().end(), std::back_inserter(text),
                 [](char c) { return c != ' ' && c != '\t'; });
    int order = 0;
    int64_t count = 0;
    const char* const stop = text.data() + text.size();
    const auto first = std::from_chars(text.data(), stop, order);
    if (first.ec != std::errc() || first.ptr == stop || *first.ptr != '=' ||
        std::from_chars(first.ptr + 1, stop, count).ptr != stop || count < 0) {
      lines.Fail("expected 'ngram ORDER=COUNT', found '{}'", lines.line());
    }
    if (order != static_cast<int>(counts.size()) + 1) lines.Fail("expected the count of order {}", counts.size() + 1);
    if (order > NgramModel::kMaxOrder)
      lines.Fail("n-grams of more than {} words are not supported", NgramModel::kMaxOrder);
    counts.push_back(count);
  }
  if (counts.empty()) lines.Fail("there is no 'ngram 1=COUNT' behind \\data\\");
  return counts;
}

void ReadSection(ArpaLines& lines, int order, int64_t expected, NgramModel& model) {
  if (lines.line() != fmt::format("\\{}-grams:", order)) {
    lines.Fail("expected '\\{}-grams:', found '{}'", order, lines.line());
  }
  std::array<std::string_view, NgramModel::kMaxOrder + 2> fields;
  std::array<int32_t, NgramModel::kMaxOrder> words{};
  int64_t found = 0;
  while (lines.Next() && !lines.line().starts_with('\\')) {
    const size_t count = lines.Split(std::span(fields).first(static_cast<size_t>(order) + 2));
    if (count != static_cast<size_t>(order) + 1 && count != static_cast<size_t>(order) + 2) {
      lines.Fail("expected a probability, {} words and perhaps a back-off weight, found {} fields", order, count);
    }
    const float log_prob = ParseLog(lines, fields[0]);
    if (log_prob > 1e-4F) lines.Fail("log probability {} is positive", fields[0]);
    for (int i = 0; i < order; ++i) {
      words[i] = order == 1 ? model.AddWord(fields[1]) : model.WordId(fields[i + 1]);
      if (words[i] < 0) lines.Fail("the word '{}' is not among the 1-grams", fields[i + 1]);
    }
    const bool has_backoff = count == static_cast<size_t>(order) + 2;
    const float backoff = has_backoff ? ParseLog(lines, fields[count - 1]) : 0.0F;
    try {
      model.AddNgram(std::span(words).first(order), std::min(log_prob, 0.0F), backoff);
    } catch (const InputError& e) {
      lines.Fail("{}", e.message());
    }
    if (++found > expected) lines.Fail("more {}-grams than the {} that the header announces", order, expected);
  }
  if (found != expected) lines.Fail("the header announces {} {}-grams, but {} are here", expected, order, found);
}

void AppendNgram(const NgramModel& model, int32_t id, std::string& text) {
  const auto& node = model.nodes()[id];
  std::vector<std::string_view> words;
  for (int32_t n = id; n != NgramModel::kRoot; n = model.nodes()[n].parent) {
    words.push_back(model.words()[model.nodes()[n].word]);
  }
  std::reverse(words.begin(), words.end());
  text += node.log_prob <= NgramModel::kImpossible ? "-99" : fmt::format("{:.7g}", node.log_prob / kLog10);
  text += fmt::format("\t{}", fmt::join(words, " "));
  if (node.depth < model.order() && (node.has_children || node.log_backoff != 0.0F)) {
    text += fmt::format("\t{:.7g}", std::max(node.log_backoff / kLog10, -99.0F));
  }
  text += '\n';
}

}  // namespace

NgramModel NgramModel::ParseArpa(std::string_view text, const std::string& source) {
  ArpaLines lines(text, source);
  const std::vector<int64_t> counts = ReadCounts(lines);
  NgramModel model(static_cast<int>(counts.size()));
  for (int order = 1; order <= model.order_; ++order) ReadSection(lines, order, counts[order - 1], model);
  if (lines.line() != "\\end\\") lines.Fail("there is no \\end\\ here: the file is cut short or has too many sections");
  model.Finish();
  return model;
}

NgramModel NgramModel::ReadArpa(const std::filesystem::path& path) {
  return ParseArpa(ReadMaybeGzipped(path), path.string());
}

std::string NgramModel::ToArpa() const {
  std::string text = "\n\\data\\\n";
  for (int order = 1; order <= order_; ++order) text += fmt::format("ngram {}={}\n", order, NumNgrams(order));
  for (int order = 1; order <= order_; ++order) {
    text += fmt::format("\n\\{}-grams:\n", order);
    for (size_t i = 1; i < nodes_.size(); ++i) {
      if (nodes_[i].depth == order) AppendNgram(*this, static_cast<int32_t>(i), text);
    }
  }
  return text + "\n\\end\\\n";
}

}  // namespace antiphon::decode
