// What a server is started with, besides its models.
#pragma once

#include <string>

#include "base/options.h"
#include "serve/access.h"
#include "serve/limits.h"

namespace antiphon::serve {

struct ServeOptions {
  std::string address = "127.0.0.1";
  int port = 2700;
  bool log_words = false;
  AccessOptions access;
  LimitOptions limits;

  template <class V>
  void Visit(V& v) {
    v("address", address, "to listen at; any but 127.0.0.1 and ::1 needs --token-file");
    v("port", port, Range{0, 65535}, "to listen at, for HTTP and WebSocket; 0: a free one, which the log names");
    v("log-words", log_words, "write what was recognised into the log");
    access.Visit(v);
    v.Group("limits", limits);
  }
};

}  // namespace antiphon::serve
