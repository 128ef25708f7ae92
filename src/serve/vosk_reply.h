// Results as Vosk's clients expect them.
//
//   {"partial": "one zero"}
//   {"partial": "one zero", "partial_result": [{"end": 0.84, "start": 0.39, "word": "one"}, …]}
//   {"result": [{"conf": 0.98, "end": 0.84, "start": 0.39, "word": "one"}, …], "text": "one zero"}
//   {"alternatives": [{"confidence": -41.2, "result": [{"end", "start", "word"}, …], "text": "one zero"}, …]}
//
// One reply for one message: if several utterances ended within it, their words stand in it one after the other. A
// result comes before what is understood of the next utterance, which the next reply tells. Of alternatives, the first
// has times; "confidence" is the negative cost in nats, higher is better. A silent utterance has the text "".
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>

#include "antiphon/stream.h"
#include "serve/vosk_message.h"

namespace antiphon::serve {

/// `end`: no more speech comes, so that the reply is a result in any case. `so_far`: of an utterance that goes on, kept
/// from message to message.
std::string VoskReply(std::span<const StreamEvent> events, bool end, const VoskConfig& config, StreamEvent& so_far);

}  // namespace antiphon::serve
