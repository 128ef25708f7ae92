// One utterance from scores to all that a recogniser tells about it.
//
// Threads: one Recognizer per thread; they share graph and model.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "decode/graph/graph.h"
#include "decode/lattice/lattice.h"
#include "decode/lattice/lm_rescore.h"
#include "decode/lattice/word_times.h"
#include "decode/search/contrast.h"
#include "decode/search/decoder.h"
#include "hmm/hmm_model.h"

namespace antiphon::decode {

struct RecognizeOptions {
  DecoderOptions search;
  int64_t max_lattice_arcs = 200000;
  int nbest = 0;
  bool confidences = true;
  bool contrast = false;  // not an option: measure it
  WordBiasOptions bias;

  template <class V>
  void Visit(V& v) {
    search.Visit(v);
    v("max-lattice-arcs", max_lattice_arcs, Range{1, 1e9}, "narrow a lattice rather than let it grow beyond");
    v("nbest", nbest, Range{0, 100000}, "hypotheses per utterance to write; 0: the best alone");
    v("confidences", confidences, "give each word its posterior probability");
    bias.Visit(v);
  }
};

struct Recognition {
  LatticePath best;  // by the weights; without words for silence
  Lattice lattice;   // determinised; empty without frames
  std::vector<LatticePath> nbest;
  PathTimes times;                  // of best
  std::vector<double> confidences;  // per word of best, if asked for
  // Of all since Start (contrast.h), of joined pieces their mean by frames; NaN: not measured.
  double contrast = std::numeric_limits<double>::quiet_NaN();
  int num_frames = 0;
  std::string remark;  // why there are no words, or that no sentence end was reached; usually empty
};

/// The remark of a recognition without words.
inline constexpr char kNoWords[] = "no words were recognised";
/// That of one without frames.
inline constexpr char kNoFrames[] = "it has no frames";

/// What the options ask for, told to the log where it cannot be done; null if they ask for nothing.
std::unique_ptr<const WordBias> MakeBias(const Graph& graph, const WordBiasOptions& options);

class Recognizer {
 public:
  /// Both must outlive the recogniser. The graph must have a lexicon.
  /// `rescorer` exchanges the language model in each lattice; null: none; `bias` prefers words (MakeBias of the
  /// options, by whoever makes recognisers); null: none. Both must outlive the recogniser, too.
  Recognizer(const Graph& graph, const hmm::HmmModel& model, const RecognizeOptions& options,
             const LmRescorer* rescorer = nullptr, const WordBias* bias = nullptr);

  /// `weights` choose among the lattice's paths; the search uses its own acoustic scale. Scores that cannot be searched
  /// (not finite, or more frames than the grammar allows) give no words and a remark; ShapeError if they do not fit the
  /// graph.
  Recognition Recognize(ScoreSource& scores, const LatticeWeights& weights);
  // The same for speech that is still coming: Start, Advance as often as frames come in, Finish. What Advance throws
  // ends the utterance.
  void Start();
  void Advance(ScoreSource& scores, int max_frames = -1);
  const Decoder& decoder() const { return decoder_; }
  const Graph& graph() const { return graph_; }
  const hmm::HmmModel& model() const { return model_; }
  const RecognizeOptions& options() const { return options_; }
  /// Nats that hypotheses have which have just begun a hotword.
  double head_start() const { return head_start_; }
  Recognition Finish(const LatticeWeights& weights);
  /// What was said before a frame at which the best path so far enters a word or a pause (Decoder::CutBefore); the
  /// search continues after it, its frames counting from 0.
  Recognition Cut(int frame, const PathAnchor& anchor, const LatticeWeights& weights);

  /// Only the best path of the search, for a first pass; empty if the scores cannot be searched.
  LatticePath BestPathOnly(ScoreSource& scores);
  const DecoderStats& stats() const { return decoder_.stats(); }

 private:
  // All but the remark.
  Recognition Describe(const Lattice& raw, int num_frames, const LatticeWeights& weights, bool ends) const;

  const Graph& graph_;
  const hmm::HmmModel& model_;
  RecognizeOptions options_;
  const LmRescorer* rescorer_;
  double head_start_;
  Decoder decoder_;
  Contrast contrast_;          // of the decoder's frames
  std::vector<int32_t> said_;  // since Start, up to the last Cut
};

}  // namespace antiphon::decode
