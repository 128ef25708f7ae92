#include "serve/access.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/trim.h"

namespace antiphon::serve {
namespace {

constexpr std::string_view kBearer = "Bearer ";

// Without the port.
std::string_view NameOfHost(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

std::vector<std::string> ReadTokens(const std::string& file) {
  std::vector<std::string> tokens;
  std::istringstream lines(ReadFile(file));
  for (std::string line; std::getline(lines, line);) {
    const std::string token(Trim(line));
    if (!token.empty() && token.front() != '#') tokens.push_back(token);
  }
  if (tokens.empty()) Throw<UsageError>("'{}' holds no token: put one on a line, long and random", file);
  return tokens;
}

}  // namespace

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  unsigned differs = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    differs |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(other));
  }
  return differs == 0;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 2, code, 16).ptr == &text[i + 1] + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string QueryValue(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) != key || equals == std::string_view::npos) continue;
    std::string value(pair.substr(equals + 1));
    std::replace(value.begin(), value.end(), '+', ' ');
    return PercentDecoded(value);
  }
  return "";
}

Access::Access(const AccessOptions& options) : origins_(options.origins), hosts_(options.hosts) {
  if (!options.token_file.empty()) tokens_ = ReadTokens(options.token_file);
}

bool Access::TokenRight(std::string_view authorization, std::string_view query) const {
  if (tokens_.empty()) return true;
  std::string given = QueryValue(query, "token");
  if (authorization.starts_with(kBearer)) given = authorization.substr(kBearer.size());
  bool right = false;
  for (const std::string& token : tokens_) right = EqualInConstantTime(given, token) || right;
  return right;
}

bool Access::IsNamedOrigin(std::string_view origin) const {
  return std::find(origins_.begin(), origins_.end(), origin) != origins_.end();
}

bool Access::OriginAllowed(std::string_view origin, std::string_view host) const {
  if (origin.empty() || IsNamedOrigin(origin)) return true;
  const size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && !host.empty() && origin.substr(scheme + 3) == host;
}

bool Access::HostAllowed(std::string_view host) const {
  if (needs_token() || host.empty()) return true;
  const std::string_view name = NameOfHost(host);
  constexpr std::string_view kOwnNames[] = {"localhost", "127.0.0.1", "[::1]"};
  return std::find(std::begin(kOwnNames), std::end(kOwnNames), name) != std::end(kOwnNames) ||
         std::find(hosts_.begin(), hosts_.end(), name) != hosts_.end();
}

}  // namespace antiphon::serve
