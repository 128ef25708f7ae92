// Who may ask: tokens, and what browsers may do in the name of a page.
//
// A token stands in `Authorization: Bearer TOKEN` or in the query as `?token=TOKEN`, and is compared in a time that
// does not depend on how much of it is right. A browser tells the page's origin: the server's own is served, and those
// that the options name. Without tokens the server is for this machine alone, and takes only requests that name it so
// (or by one of `hosts`): otherwise a page of anybody could reach it under a name that points here.
//
// Threads: const methods may run together. Errors: UsageError for a file of tokens without any; IoError.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace antiphon::serve {

struct AccessOptions {
  std::string token_file;
  std::vector<std::string> origins;
  std::vector<std::string> hosts;

  template <class V>
  void Visit(V& v) {
    v("token-file", token_file,
      "file of the tokens that clients have to give, one per line; needed for addresses that others can reach");
    v("origins", origins,
      "pages of other servers that may use this one from a browser, as https://example.org; default: none");
    v("hosts", hosts, "names besides localhost by which a proxy on this machine calls a server without tokens");
  }
};

class Access {
 public:
  explicit Access(const AccessOptions& options);

  bool needs_token() const { return !tokens_.empty(); }
  /// `authorization`: that header; `query`: what follows the '?', both "" where there is none.
  bool TokenRight(std::string_view authorization, std::string_view query) const;
  /// `origin`: that header, "": no browser asks. `host`: that header.
  bool OriginAllowed(std::string_view origin, std::string_view host) const;
  /// Whether a page of another server may read the answer.
  bool IsNamedOrigin(std::string_view origin) const;
  bool HostAllowed(std::string_view host) const;

 private:
  std::vector<std::string> tokens_, origins_, hosts_;
};

/// Compares in a time that depends on the lengths alone.
bool EqualInConstantTime(std::string_view a, std::string_view b);

/// With its %XX decoded, as in paths.
std::string PercentDecoded(std::string_view text);
/// The value of a key in a query ("a=1&b=2"), with its %XX decoded and blanks for '+'; "": it is not there.
std::string QueryValue(std::string_view query, std::string_view key);

}  // namespace antiphon::serve
