#include "serve/multipart.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/trim.h"

namespace antiphon::serve {
namespace {

bool EqualNoCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

// One "name=value" and what follows its ';'. A quoted value may hold ';' and escaped quotes.
std::string_view TakeParameter(std::string_view& rest) {
  bool quoted = false;
  size_t end = 0;
  for (; end < rest.size() && (quoted || rest[end] != ';'); ++end) {
    if (quoted && rest[end] == '\\') {
      ++end;
    } else if (rest[end] == '"') {
      quoted = !quoted;
    }
  }
  end = std::min(end, rest.size());
  const std::string_view parameter = rest.substr(0, end);
  rest.remove_prefix(std::min(rest.size(), end + 1));
  return parameter;
}

std::string Unquoted(std::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return std::string(value);
  std::string out;
  for (size_t i = 1; i + 1 < value.size(); ++i) {
    // Browsers send a backslash of a file's name as it is; only quotes and backslashes are escaped.
    if (value[i] == '\\' && i + 2 < value.size() && (value[i + 1] == '"' || value[i + 1] == '\\')) ++i;
    out += value[i];
  }
  return out;
}

FormPart PartOf(std::string_view headers) {
  FormPart part;
  bool found = false;
  while (!headers.empty()) {
    const size_t end = headers.find("\r\n");
    const std::string_view line = headers.substr(0, end);
    headers.remove_prefix(end == std::string_view::npos ? headers.size() : end + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !EqualNoCase(line.substr(0, colon), "content-disposition")) continue;
    part.name = HeaderParameter(line.substr(colon + 1), "name", &found);
    part.filename = HeaderParameter(line.substr(colon + 1), "filename", &part.is_file);
  }
  if (!found) throw InputError("a part of the form has no name: expected Content-Disposition: form-data; name=\"…\"");
  return part;
}

}  // namespace

std::string HeaderParameter(std::string_view header, std::string_view name, bool* found) {
  TakeParameter(header);
  while (!header.empty()) {
    const std::string_view parameter = Trim(TakeParameter(header));
    const size_t equals = parameter.find('=');
    if (equals == std::string_view::npos || !EqualNoCase(Trim(parameter.substr(0, equals)), name)) continue;
    if (found != nullptr) *found = true;
    return Unquoted(Trim(parameter.substr(equals + 1)));
  }
  if (found != nullptr) *found = false;
  return "";
}

std::string MultipartParser::BoundaryOf(std::string_view content_type) {
  if (!EqualNoCase(Trim(content_type.substr(0, content_type.find(';'))), "multipart/form-data")) {
    throw InputError("expected Content-Type: multipart/form-data with the recording as its part 'file'");
  }
  const std::string boundary = HeaderParameter(content_type, "boundary");
  constexpr size_t kMaxBoundaryBytes = 70;
  if (boundary.empty() || boundary.size() > kMaxBoundaryBytes || boundary.find_first_of("\r\n") != std::string::npos) {
    throw InputError("the Content-Type names no boundary of 1 to 70 characters");
  }
  return boundary;
}

// What comes first is like the end of a preamble, so that a form may begin with its first delimiter.
MultipartParser::MultipartParser(std::string_view boundary, FormSink& sink)
    : delimiter_("\r\n--" + std::string(boundary)), sink_(sink), bytes_("\r\n") {}

void MultipartParser::Feed(std::string_view bytes) {
  if (state_ == State::kDone) return;  // an epilogue, which says nothing
  bytes_ += bytes;
  while (Advance()) {
  }
}

void MultipartParser::Finish() const {
  if (state_ != State::kDone) throw InputError("the form ends before its last boundary: it was cut short");
}

bool MultipartParser::Advance() {
  switch (state_) {
    case State::kPreamble:
      return Preamble();
    case State::kDelimiter:
      return Delimiter();
    case State::kHeaders:
      return Headers();
    case State::kBody:
      return Body();
    case State::kDone:
      break;
  }
  bytes_.clear();
  return false;
}

bool MultipartParser::Preamble() {
  const size_t at = bytes_.find(delimiter_);
  if (std::min(at, bytes_.size()) > kMaxHeaderBytes) throw InputError("the form does not begin with its boundary");
  if (at == std::string::npos) return false;
  bytes_.erase(0, at + delimiter_.size());
  state_ = State::kDelimiter;
  return true;
}

bool MultipartParser::Delimiter() {
  const size_t blanks = std::min(bytes_.find_first_not_of(" \t"), bytes_.size());
  if (blanks > kMaxHeaderBytes) throw InputError("a boundary of the form is followed by nothing but blanks");
  if (bytes_.size() < blanks + 2) return false;
  const std::string_view next = std::string_view(bytes_).substr(blanks, 2);
  if (next == "--") {
    state_ = State::kDone;
  } else if (next == "\r\n") {
    if (++parts_ > kMaxParts) Throw<InputError>("the form has more than {} parts", kMaxParts);
    state_ = State::kHeaders;
  } else {
    throw InputError("a boundary of the form is followed by something else than a line's end");
  }
  bytes_.erase(0, blanks + 2);
  return true;
}

bool MultipartParser::Headers() {
  const size_t end = bytes_.find("\r\n\r\n");
  if (std::min(end, bytes_.size()) > kMaxHeaderBytes) {
    Throw<InputError>("the headers of a part are longer than {} bytes", kMaxHeaderBytes);
  }
  if (end == std::string::npos) return false;
  const FormPart part = PartOf(std::string_view(bytes_).substr(0, end));
  bytes_.erase(0, end + 4);
  sink_.Begin(part);
  state_ = State::kBody;
  return true;
}

bool MultipartParser::Body() {
  const size_t at = bytes_.find(delimiter_);
  if (at == std::string::npos) {
    // What may be the beginning of a delimiter waits for the rest.
    const size_t sure = bytes_.size() - std::min(bytes_.size(), delimiter_.size() - 1);
    if (sure > 0) sink_.Data(std::string_view(bytes_).substr(0, sure));
    bytes_.erase(0, sure);
    return false;
  }
  if (at > 0) sink_.Data(std::string_view(bytes_).substr(0, at));
  sink_.End();
  bytes_.erase(0, at + delimiter_.size());
  state_ = State::kDelimiter;
  return true;
}

}  // namespace antiphon::serve
