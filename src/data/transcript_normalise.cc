// Case and punctuation of transcripts.

#include <algorithm>

#include "data/text_table.h"
#include "data/transcript_table.h"

namespace antiphon::data {
namespace {

// Unicode code points of valid UTF-8.
char32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  char32_t c = lead & (0x3f >> more);
  for (int i = 0; i < more; ++i) c = (c << 6) | (static_cast<unsigned char>(text[at++]) & 0x3f);
  return c;
}

void AppendCodePoint(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

// One-to-one case pairs of the alphabets below U+0530; everything else has no case here.
char32_t ToUpper(char32_t c) {
  if (c >= 'a' && c <= 'z') return c - 0x20;
  if ((c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) || (c >= 0x430 && c <= 0x44f))
    return c - 0x20;
  if (c == 0xff) return 0x178;
  if (c >= 0x450 && c <= 0x45f) return c - 0x50;
  const bool even_upper = (c >= 0x100 && c <= 0x137 && c != 0x131) || (c >= 0x14a && c <= 0x177) ||
                          (c >= 0x460 && c <= 0x481) || (c >= 0x48a && c <= 0x4bf) || (c >= 0x4d0 && c <= 0x52f);
  if (even_upper && c % 2 == 1) return c - 1;
  const bool odd_upper = (c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e);
  return odd_upper && c % 2 == 0 ? c - 1 : c;
}
char32_t ToLower(char32_t c) {
  if (c == 0x178) return 0xff;
  if (c == 0x130) return 'i';
  for (const char32_t distance : {U'\x20', U'\x50', U'\x01'}) {
    if (ToUpper(c + distance) == c && c + distance != c) return c + distance;
  }
  return c;
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return (c > 0x20 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
  return (c >= 0xa1 && c <= 0xbf && c != 0xaa && c != 0xb5 && c != 0xba && c != 0xb2 && c != 0xb3 && c != 0xb9) ||
         (c >= 0x2010 && c <= 0x205e) || (c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x301f) || c == 0xff01 ||
         c == 0xff0c || c == 0xff0e || c == 0xff1a || c == 0xff1b || c == 0xff1f;
}

bool StaysWithin(char32_t c) { return c == '\'' || c == '-' || c == 0x2019; }

std::string NormaliseWord(std::string_view word, const PrepareOptions& options) {
  std::vector<char32_t> letters;
  for (size_t at = 0; at < word.size();) letters.push_back(NextCodePoint(word, at));
  std::string out;
  for (size_t i = 0; i < letters.size(); ++i) {
    char32_t c = letters[i];
    if (options.strip_punctuation && IsPunctuation(c)) {
      const bool inside =
          i > 0 && i + 1 < letters.size() && !IsPunctuation(letters[i - 1]) && !IsPunctuation(letters[i + 1]);
      if (!StaysWithin(c) || !inside) continue;
      if (c == 0x2019) c = '\'';
    }
    if (options.case_folding == "upper") c = ToUpper(c);
    if (options.case_folding == "lower") c = ToLower(c);
    AppendCodePoint(c, out);
  }
  return out;
}

}  // namespace

std::string NormaliseTranscript(std::string_view text, const PrepareOptions& options) {
  std::string out;
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '\n', ' ');
  for (const std::string& word : SplitWords(spaced)) {
    const std::string normal = NormaliseWord(word, options);
    if (!normal.empty()) out += (out.empty() ? "" : " ") + normal;
  }
  return out;
}

}  // namespace antiphon::data
