// Unicode form, case and punctuation of transcripts.

#include <algorithm>

#include "base/utf8.h"
#include "data/text_table.h"
#include "data/transcript_rows.h"

namespace antiphon::data {
namespace {

// What a sign of punctuation between two letters of a word stands for; 0 for one that is taken out there too, as the
// marks above Armenian vowels are.
char32_t WithinWord(char32_t c) {
  switch (c) {
    case U'\'':
    case U'\u2019':  // the printed apostrophe
      return U'\'';
    case U'-':
    case U'\u2010':
    case U'\u2011':
      return U'-';
    case U'\u00b7':  // Catalan l·l
    case U'\u05be':  // Hebrew maqaf, geresh, gershayim
    case U'\u05f3':
    case U'\u05f4':
    case U'\u0f0b':  // between Tibetan syllables
      return c;
    default:
      return 0;
  }
}

std::string StripPunctuation(std::string_view word) {
  const std::vector<char32_t> letters = DecodeUtf8(word);
  std::vector<char32_t> kept;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!IsPunctuation(letters[i])) {
      kept.push_back(letters[i]);
      continue;
    }
    const bool inside =
        i > 0 && i + 1 < letters.size() && !IsPunctuation(letters[i - 1]) && !IsPunctuation(letters[i + 1]);
    if (const char32_t c = WithinWord(letters[i]); inside && c != 0) kept.push_back(c);
  }
  return EncodeUtf8(kept);
}

// Blanks of every kind become spaces, and what cannot be seen goes.
std::string Spaced(std::string_view text) {
  std::vector<char32_t> letters = DecodeUtf8(ComposeUtf8(text));
  std::erase_if(letters, IsInvisible);
  std::replace_if(letters.begin(), letters.end(), IsBlank, U' ');
  return EncodeUtf8(letters);
}

}  // namespace

std::string NormaliseTranscript(std::string_view text, const PrepareOptions& options) {
  std::string out;
  for (const std::string& word : SplitWords(Spaced(text))) {
    const std::string normal = options.strip_punctuation ? StripPunctuation(word) : word;
    if (!normal.empty()) out += (out.empty() ? "" : " ") + normal;
  }
  if (options.case_folding == "upper") return UpperCase(out);
  if (options.case_folding == "lower") return LowerCase(out);
  return out;
}

}  // namespace antiphon::data
