// Files of a folder on a server (data/remote_place.h), fetched whole.
//
// Safety: nothing but HTTP and HTTPS is spoken; certificates are verified; at most 5 redirects are followed, from HTTPS
// to HTTPS alone, and none of S3, where they mean another region. Names and passwords for HTTP come from ~/.netrc.
// Patience: a transfer that stalls, breaks, or finds the server busy is begun anew, where it broke if the server sends
// parts of files, after waiting twice as long each time; attempts that bring the file further count from 1 again.
//
// Threads: one call at a time; others wait. Errors: InputError naming address, HTTP status, the server's reason and
// what to do; UsageError where the program was built without libcurl; Cancelled once `stop` is true, within 0.1 s.
// Source: RFC 9110, ranges and Retry-After; https://curl.se/libcurl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/options.h"
#include "data/remote_place.h"

namespace antiphon::data {

struct FetchOptions {
  int fetch_attempts = 8;
  double fetch_stall_s = 30;
  template <class V>
  void Visit(V& v) {
    v("fetch-attempts", fetch_attempts, Range{1, 1000},
      "of a store on a server: attempts in a row at a file that bring nothing before the run fails");
    v("fetch-stall-s", fetch_stall_s, Range{1, 1e6},
      "of a store on a server: seconds without a byte, or until a connection stands, after which an attempt has "
      "failed");
  }
};

/// "libcurl/7.88.1 OpenSSL/3.0.17 …"; empty in a program that was built without it.
std::string CurlLibrary();

class RemoteFolder {
 public:
  using Stop = std::function<bool()>;

  explicit RemoteFolder(std::string_view address, FetchOptions options = {});
  ~RemoteFolder();

  std::string UrlOf(std::string_view name) const { return place_.UrlOf(name); }
  /// A whole file, of at most `most_bytes`.
  std::string Read(const std::string& name, uint64_t most_bytes, const Stop& stop) const;
  /// Writes a file that has `bytes` bytes into the file `target`, which stands at `target_path`, from its beginning.
  void Fetch(const std::string& name, uint64_t bytes, int target, const std::filesystem::path& target_path,
             const Stop& stop) const;

 private:
  struct Connection;
  RemotePlace place_;
  FetchOptions options_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace antiphon::data
