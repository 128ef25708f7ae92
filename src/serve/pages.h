// What the server answers without hearing anything: the page, health, readiness, metrics, the list of models.
//
// Threads: pure functions of what the server's context holds.
#pragma once

#include <optional>
#include <string_view>

#include "serve/reply.h"
#include "serve/server_context.h"

namespace antiphon::serve {

/// nullopt: there is nothing of that name. Methods other than GET and HEAD get 405.
std::optional<HttpReply> AnswerPage(const RequestHead& head, ServerContext& server);

/// Whether a path is answered without a token: what a supervisor asks, and the page, which asks for one itself.
bool IsPublic(std::string_view path);

/// The page with the microphone, as it was built in (page/index.html).
std::string_view PageHtml();

/// An error in the form of OpenAI's interface.
HttpReply OpenAiError(const HttpError& error);

}  // namespace antiphon::serve
