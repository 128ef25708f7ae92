// Alignment of recordings that are too long for one search, or whose text does not fit them everywhere.
//
// Long: the recording is recognised with its own text as the language model (text_recognizer.h), piece by piece; where
// both agree, it is cut into stretches (text_anchors.h). Each is aligned by itself: sure ones as any utterance, the
// others with the liberty to leave words of the text out, and to take speech as foreign (hmm/align_graph.h, GapCosts).
//
// Units: frames of the search; `rows` are those of the features. Threads: pieces and stretches on several; the result
// does not depend on how many. Errors: InputError for scores that are not numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "hmm/aligner.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"
#include "math/matrix.h"
#include "pipeline/text_anchors.h"

namespace antiphon::pipeline {

struct GapOptions {
  std::string gaps = "long";
  double long_above_s = 60.0;
  hmm::GapCosts costs;
  double best_share = 0.01;

  template <class V>
  void Visit(V& v) {
    v("gaps", gaps, OneOf{{"long", "all", "none"}},
      "look for words that are not spoken and speech that is not in the text: in long recordings, in all, or nowhere");
    v("long-above", long_above_s, Range{5.0, 1e9},
      "seconds above which a recording is cut where it agrees with its text, and aligned piece by piece");
    v.Group("gap", costs);
    v("best-share", best_share, Range{1e-6, 1.0}, "share of a frame's best classes whose mean is any speech's score");
  }
};

class GapAligner {
 public:
  /// Scores of features that are part of the recording's.
  using Scorer = std::function<std::unique_ptr<ScoreSource>(const Matrix& rows)>;

  /// All must outlive this. `subsampling`: rows of the features per frame.
  GapAligner(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const hmm::AlignOptions& align,
             const GapOptions& gaps, int subsampling);

  /// Words of the text that no phone has were not said; phones of position hmm::kForeignSpeech are not in the text.
  hmm::Alignment Align(std::span<const int32_t> words, ScoreSource& scores) const;
  /// The same of a long recording, on up to `num_threads` threads.
  hmm::Alignment AlignLong(std::span<const int32_t> words, const Matrix& features, const Scorer& scorer,
                           int num_threads) const;

 private:
  std::vector<FoundWord> Recognize(std::span<const int32_t> words, const Matrix& features, int num_frames,
                                   const Scorer& scorer, int num_threads) const;
  hmm::Alignment AlignStretch(std::span<const int32_t> words, const TextStretch& stretch,
                              std::span<const FoundWord> found, const Matrix& features, const Scorer& scorer) const;

  const hmm::HmmModel& model_;
  const hmm::Lexicon& lexicon_;
  const hmm::AlignOptions& align_;
  const GapOptions& gaps_;
  int subsampling_;
};

}  // namespace antiphon::pipeline
