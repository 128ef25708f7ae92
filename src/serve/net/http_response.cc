#include "serve/net/http_response.h"

#include <sstream>

namespace antiphon::serve {

HttpResponse ResponseOf(const HttpReply& reply) {
  HttpResponse response{static_cast<http::status>(reply.status), 11};
  response.set(http::field::server, "antiphon");
  response.set(http::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  if (!reply.content_type.empty()) response.set(http::field::content_type, reply.content_type);
  if (reply.status == 503) response.set(http::field::retry_after, "1");
  for (const auto& [name, value] : reply.headers) response.set(name, value);
  return response;
}

std::string HeadBytes(const HttpResponse& response) {
  std::ostringstream out;
  out << response.base();
  return out.str();
}

std::string LastAnswer(const HttpReply& reply) {
  HttpResponse response = ResponseOf(reply);
  response.keep_alive(false);
  response.content_length(reply.body.size());
  response.body() = reply.body;
  return Bytes(response);
}

std::string Bytes(const HttpResponse& response) {
  std::ostringstream out;
  out << response;
  return out.str();
}

}  // namespace antiphon::serve
