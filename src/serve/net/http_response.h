// Answers over HTTP as bytes: what is the same in all of them stands here.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "serve/net/beast.h"
#include "serve/reply.h"

namespace antiphon::serve {

using HttpResponse = http::response<http::string_body>;

/// Status and headers, without the body; a 503 says when to try again.
HttpResponse ResponseOf(const HttpReply& reply);
/// Of its headers alone.
std::string HeadBytes(const HttpResponse& response);
/// The answer to a connection that is closed behind it.
std::string LastAnswer(const HttpReply& reply);
/// With its body, complete.
std::string Bytes(const HttpResponse& response);

}  // namespace antiphon::serve
