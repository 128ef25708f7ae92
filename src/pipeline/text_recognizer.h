// Recognises what a recording has of a text: a search whose language model is the text itself.
//
// The graph holds the text's words alone, and a trigram of them: it expects the text, but can leave it anywhere. Made
// in memory, for this one recording.
//
// Units: frames of the search. Threads: Recognize may run on several.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/score_source.h"
#include "decode/graph/graph.h"
#include "decode/search/decoder.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"
#include "pipeline/text_anchors.h"

namespace antiphon::pipeline {

class TextRecognizer {
 public:
  /// `text`: ids of `lexicon`, at least one.
  TextRecognizer(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, std::span<const int32_t> text);

  /// Words with ids of the lexicon; none where the scores cannot be searched.
  std::vector<FoundWord> Recognize(ScoreSource& scores) const;

 private:
  const hmm::HmmModel& model_;
  hmm::Lexicon words_;             // those of the text
  std::vector<int32_t> large_id_;  // by id in words_: that of the lexicon
  decode::Graph graph_;
  decode::DecoderOptions options_;
};

}  // namespace antiphon::pipeline
