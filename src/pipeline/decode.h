// A decoding: from speech, a model and a search graph to words, lattices, times and confidences.
//
//   DecodeRequest request;
//   request.model = "exp/net.safetensors", request.graph = "exp/graph";
//   request.data = "data/test", request.out = "exp/decode";
//   const DecodeReport report = Decode(request, Team::Alone(), NumCores());
//
// Leaves the files of pipeline/decode_output.h, summary.json (ToJson of the report), fmllr.scp if the model adapts to
// speakers, weights.toml if asked for, and features/ and data/ where they had to be made.
// Threads: one caller per member of the team. Errors: UsageError and InputError, naming file or utterance.
#pragma once

#include "base/team.h"
#include "pipeline/decode_report.h"
#include "pipeline/decode_request.h"

namespace antiphon::pipeline {

/// On all members of the team, each of which recognises some utterances; the first writes, and gets the report.
DecodeReport Decode(const DecodeRequest& request, Team& team, int num_threads);

}  // namespace antiphon::pipeline
