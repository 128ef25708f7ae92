// UTF-8 text: the one place that decodes it and that knows what Unicode says of letters.
//
// Words are compared as bytes everywhere. "é" can be one code point or an "e" with an accent behind it; so whatever
// reads words from a file brings them into one form first, that of Unicode's normalisation C (ComposeUtf8).
//
// Positions and lengths are bytes. Errors: InputError naming the first byte that is not UTF-8 (RFC 3629: no overlong
// forms, no surrogates). Threads: pure functions. Source: the Unicode character database, by libutf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon {

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 0;  // 0: what stands here is not UTF-8
};

/// The code point at the front of `text`, which is not empty.
CodePoint FirstCodePoint(std::string_view text);

/// Position of the first byte that is not UTF-8, or npos.
size_t FindBadUtf8(std::string_view text);

/// InputError naming the byte.
void RequireUtf8(std::string_view text);

/// For messages: with \xE9 in place of each byte that is not UTF-8.
std::string ShowBadUtf8(std::string_view text);

/// All code points, and back.
std::vector<char32_t> DecodeUtf8(std::string_view text);
std::string EncodeUtf8(const std::vector<char32_t>& code_points);

/// Some editors write such a mark before the first line.
std::string_view WithoutByteOrderMark(std::string_view text);
/// Normalisation form C: letters and their accents as one code point where there is one. ASCII comes back as it is.
std::string ComposeUtf8(std::string_view text);
/// The same of a whole file, without its byte order mark; errors name "source:line".
std::string ComposeLines(std::string_view text, const std::string& source);

/// Upper and lower case in form C, by Unicode's rules for all languages: "ß" becomes "SS", a Σ at the end of a word
/// "ς". "İ" becomes "i", the letter that Turkish and all others read it as.
std::string UpperCase(std::string_view text);
std::string LowerCase(std::string_view text);
/// What text in any case has in common, for comparing.
std::string FoldCase(std::string_view text);

/// Punctuation and symbols of every script.
bool IsPunctuation(char32_t c);
/// Blanks and line ends of every script.
bool IsBlank(char32_t c);
/// Signs that are not seen: marks of direction and of places to break, the byte order mark. Not the joiners, by which
/// Persian and the scripts of India spell.
bool IsInvisible(char32_t c);

/// Columns of a terminal that well-formed text takes: none for an accent of its own, two for 語. A byte that is not
/// UTF-8 takes one.
size_t DisplayColumns(std::string_view text);

}  // namespace antiphon
