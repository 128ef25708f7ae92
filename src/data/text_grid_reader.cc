// All that counts in a TextGrid are free-standing numbers, texts in quotes and flags, in order.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "data/text_grid.h"
#include "data/text_table.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Praat writes UTF-16 where a label has signs beyond Latin-1.
std::string FromUtf16(std::string_view bytes, bool big_endian) {
  std::vector<char32_t> text;
  const auto unit = [&](size_t i) {
    const auto first = static_cast<uint8_t>(bytes[i]), second = static_cast<uint8_t>(bytes[i + 1]);
    return static_cast<char32_t>(big_endian ? first << 8 | second : second << 8 | first);
  };
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    char32_t c = unit(i);
    if (c >= 0xD800 && c < 0xDC00 && i + 3 < bytes.size()) {
      c = 0x10000 + ((c - 0xD800) << 10) + (unit(i + 2) - 0xDC00);
      i += 2;
    }
    text.push_back(c);
  }
  return EncodeUtf8(text);
}

std::string ReadText(const fs::path& file) {
  const std::string bytes = ReadFile(file);
  const std::string_view view = bytes;
  if (view.starts_with("\xfe\xff")) return FromUtf16(view.substr(2), true);
  if (view.starts_with("\xff\xfe")) return FromUtf16(view.substr(2), false);
  return std::string(WithoutByteOrderMark(view));
}

// The numbers and texts of a file, one by one.
class Tokens {
 public:
  Tokens(std::string text, std::string name) : text_(std::move(text)), name_(std::move(name)) {}

  double Number() {
    while (true) {
      const std::string word = Word("a number");
      double value = 0.0;
      if (ParseReal(word, value)) return value;
    }
  }
  int64_t Count() {
    const double count = Number();
    // An interval takes more than a byte.
    if (!(count >= 0.0 && count <= static_cast<double>(text_.size()))) Fail("a count");
    return static_cast<int64_t>(count);
  }
  std::string Text() {
    at_ = text_.find('"', at_);
    std::string found;
    while (at_ != std::string::npos) {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string::npos) break;
      found += text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      if (at_ >= text_.size() || text_[at_] != '"') return found;
      found += '"';  // written twice
    }
    Fail("a text in quotes");
  }
  [[noreturn]] void Fail(const char* expected) const {
    Throw<InputError>("'{}' is no TextGrid in Praat's text formats: {} is missing", name_, expected);
  }

 private:
  // Free-standing, up to a blank; what stands in quotes is passed over.
  std::string Word(const char* expected) {
    constexpr const char* kBlanks = " \t\r\n";
    at_ = text_.find_first_not_of(kBlanks, at_);
    if (at_ == std::string::npos) Fail(expected);
    if (text_[at_] == '"') {
      Text();
      return "";
    }
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(kBlanks, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  std::string text_;
  std::string name_;
  size_t at_ = 0;
};

}  // namespace

std::vector<IntervalTier> ReadTextGrid(const fs::path& file) {
  Tokens tokens(ReadText(file), file.string());
  if (tokens.Text() != "ooTextFile" || tokens.Text() != "TextGrid") tokens.Fail("the head");
  tokens.Number();
  tokens.Number();
  std::vector<IntervalTier> tiers;
  const int64_t num_tiers = tokens.Count();
  for (int64_t t = 0; t < num_tiers; ++t) {
    const bool is_intervals = tokens.Text() == "IntervalTier";
    IntervalTier tier;
    tier.name = tokens.Text();
    tokens.Number();
    tokens.Number();
    const int64_t size = tokens.Count();
    for (int64_t i = 0; i < size; ++i) {
      LabelledInterval interval;
      interval.start_s = tokens.Number();
      if (is_intervals) interval.end_s = tokens.Number();
      interval.label = tokens.Text();
      tier.intervals.push_back(std::move(interval));
    }
    if (is_intervals) tiers.push_back(std::move(tier));
  }
  return tiers;
}

}  // namespace antiphon::data
