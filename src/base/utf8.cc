#include "base/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "base/check.h"
#include "base/error.h"

namespace antiphon {
namespace {

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string Map(std::string_view text, int options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, std::free);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  CHECK(length >= 0) << utf8proc_errmsg(length);
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)};
}

utf8proc_int32_t Signed(char32_t c) { return static_cast<utf8proc_int32_t>(c); }
char32_t Upper(char32_t c) { return static_cast<char32_t>(utf8proc_toupper(Signed(c))); }
char32_t Lower(char32_t c) { return c == 0x130 ? U'i' : static_cast<char32_t>(utf8proc_tolower(Signed(c))); }

bool IsLetter(char32_t c) {
  switch (utf8proc_category(Signed(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
      return true;
    default:
      return false;
  }
}

// The library maps letter to letter. Small letters that become several are the ones that also fold to several.
void AppendUpper(char32_t c, std::vector<char32_t>& out) {
  const auto category = utf8proc_category(Signed(c));
  if (c >= 0x80 && (category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT)) {
    const std::vector<char32_t> parts = DecodeUtf8(Map(EncodeUtf8({c}), UTF8PROC_CASEFOLD));
    if (parts.size() > 1) {
      for (const char32_t part : parts) out.push_back(Upper(part));
      return;
    }
  }
  out.push_back(Upper(c));
}

}  // namespace

CodePoint FirstCodePoint(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  utf8proc_int32_t value = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(std::min<size_t>(text.size(), 4)), &value);
  if (bytes <= 0) return {};
  return {static_cast<char32_t>(value), static_cast<size_t>(bytes)};
}

size_t FindBadUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = FirstCodePoint(text.substr(at)).bytes;
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

void RequireUtf8(std::string_view text) {
  const size_t bad = FindBadUtf8(text);
  if (bad == std::string_view::npos) return;
  Throw<InputError>("byte {} (0x{:02x}) is not UTF-8; convert the file, for instance with iconv -f latin1 -t utf8",
                    bad + 1, static_cast<unsigned char>(text[bad]));
}

std::string ShowBadUtf8(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const size_t good = std::min(FindBadUtf8(text), text.size());
    shown += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[0]));
    text.remove_prefix(1);
  }
  return shown;
}

std::vector<char32_t> DecodeUtf8(std::string_view text) {
  RequireUtf8(text);
  std::vector<char32_t> code_points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = FirstCodePoint(text.substr(at));
    code_points.push_back(c.value);
    at += c.bytes;
  }
  return code_points;
}

std::string EncodeUtf8(const std::vector<char32_t>& code_points) {
  std::string text;
  for (const char32_t c : code_points) {
    utf8proc_uint8_t bytes[4];
    text.append(reinterpret_cast<const char*>(bytes),
                static_cast<size_t>(utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes)));
  }
  return text;
}

std::string ComposeUtf8(std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  RequireUtf8(text);
  return Map(text, UTF8PROC_COMPOSE);
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

std::string ComposeLines(std::string_view text, const std::string& source) {
  text = WithoutByteOrderMark(text);
  const size_t bad = std::min(FindBadUtf8(text), text.size());
  const std::string_view before = text.substr(0, bad);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const std::string_view line = text.substr(line_begin, text.find('\n', bad) - line_begin);
  WithContext([&] { RequireUtf8(line); },
              [&] { return fmt::format("{}:{}", source, std::count(before.begin(), before.end(), '\n') + 1); });
  return ComposeUtf8(text);
}

std::string UpperCase(std::string_view text) {
  std::vector<char32_t> out;
  for (const char32_t c : DecodeUtf8(ComposeUtf8(text))) AppendUpper(c, out);
  return ComposeUtf8(EncodeUtf8(out));
}

std::string LowerCase(std::string_view text) {
  std::vector<char32_t> letters = DecodeUtf8(ComposeUtf8(text));
  for (size_t i = 0; i < letters.size(); ++i) {
    const bool in_word = i > 0 && IsLetter(letters[i - 1]);
    const bool ends_word = i + 1 == letters.size() || !IsLetter(letters[i + 1]);
    letters[i] = letters[i] == U'Σ' && in_word && ends_word ? U'ς' : Lower(letters[i]);
  }
  return ComposeUtf8(EncodeUtf8(letters));
}

std::string FoldCase(std::string_view text) {
  RequireUtf8(text);
  return Map(text, UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
}

bool IsPunctuation(char32_t c) {
  switch (utf8proc_category(Signed(c))) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return true;
    default:
      return false;
  }
}

bool IsBlank(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  switch (utf8proc_category(Signed(c))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return c == 0x85;
  }
}

bool IsInvisible(char32_t c) {
  return c == 0xad || c == 0x61c || c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x2069) || c == 0xfeff;
}

size_t DisplayColumns(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const CodePoint c = FirstCodePoint(text);
    columns += c.bytes == 0 ? 1 : static_cast<size_t>(std::max(0, utf8proc_charwidth(Signed(c.value))));
    text.remove_prefix(std::max<size_t>(c.bytes, 1));
  }
  return columns;
}

}  // namespace antiphon
