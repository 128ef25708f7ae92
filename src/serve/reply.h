// Answers over HTTP that stand in one piece.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace antiphon::serve {

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// What a request says before its body.
struct RequestHead {
  std::string method, path, query, host, origin, content_type;
};

/// Something that the client did wrong, or that the server cannot do for it now.
struct HttpError {
  int status = 400;
  std::string message;
  std::string param = {};  // the field that is wrong; "": none
  std::string code = {};   // for programs: "model_not_found"
};

/// Codes of HttpError.
inline constexpr std::string_view kModelNotFound = "model_not_found";

}  // namespace antiphon::serve
