// Recognitions and what is heard live, from ids and frames to words and seconds, and from there to JSON.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "antiphon/recognition.h"
#include "antiphon/stream.h"
#include "api/live_recognizer.h"
#include "decode/graph/graph.h"
#include "decode/lattice/lattice.h"
#include "decode/search/recognize.h"
#include "written/written_form.h"

namespace antiphon {

/// How ids and frames of a recogniser are to be read.
struct ResultScale {
  const decode::Graph& graph;
  const hmm::HmmModel& model;                     // for times of what is understood so far
  decode::LatticeWeights weights;                 // that the result was chosen by
  double frame_shift_s = 0.01;                    // of the search
  const written::WrittenForm* written = nullptr;  // null: not asked for
  const decode::PhraseList* phrases = nullptr;    // that alone may be said; null: words may
};

/// `begin_frame`: of the recognition, where the times' zero lies before it.
Recognition Describe(const decode::Recognition& result, const ResultScale& scale, int begin_frame = 0);
StreamEvent Describe(const LiveResult& result, const ResultScale& scale);

nlohmann::ordered_json JsonOf(const Recognition& recognition);
nlohmann::ordered_json JsonOf(const StreamEvent& event);

}  // namespace antiphon
