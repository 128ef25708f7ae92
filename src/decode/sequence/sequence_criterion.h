// Sequence-discriminative criteria over a lattice: how the reference fares among all that the search took for possible.
//
// With the weight of a path w = exp(κ·Σ_t score(t, pdf) − graph cost) and P = w / Σ w over the lattice's paths:
//   mmi   loss = −log P(reference) ≥ 0; boosted, paths weigh exp(−boost · right frames) less
//   smbr  loss = expected wrong frames, T − Σ P(path)·A(path), where a frame is right if its pdf-id is the reference's;
//         mpfe: if its phone is
// The reference is a path of the lattice (AddReference puts it there), so that the loss of mmi cannot become negative
// and no frame lacks its reference. With one_silence_class, all silence phones are the same in smbr and mpfe; without
// it, sMBR learns to delete words.
//
// Shapes: scores and gradients [T, pdf-ids], scores in nats without acoustic scale. A constant added to all scores of a
// frame changes nothing, and the gradient of each frame adds up to 0: logits less log-priors will do.
// Units: nats for mmi, frames for the others, of the whole utterance. Threads: const methods may run together.
// Errors: InputError for a lattice that does not span the frames, or lacks the reference.
// Source: Veselý, Ghoshal, Burget, Povey, Sequence-discriminative training of deep neural networks, Interspeech 2013;
// Povey et al., Boosted MMI, ICASSP 2008; Gibson, Hain, Interspeech 2006 (sMBR).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "decode/lattice/lattice.h"
#include "hmm/hmm_model.h"
#include "math/matrix.h"

namespace antiphon::decode {

struct SequenceCriterionOptions {
  std::string criterion = "none";
  double acoustic_scale = 0.1;
  double boost = 0.0;
  bool one_silence_class = true;
  template <class V>
  void Visit(V& v) {
    v("criterion", criterion, OneOf{{"none", "mmi", "smbr", "mpfe", "chain"}},
      "learn from whole utterances: the reference's posterior among a lattice's paths, its expected right frames "
      "(states: smbr, phones: mpfe); chain: of chunks, the posterior among all that the phones' order allows, from "
      "what "
      "antiphon chain made");
    v("acoustic-scale", acoustic_scale, Range{1e-6, 100.0}, "weight of the network's scores against the graph's");
    v("boost", boost, Range{0.0, 10.0}, "boosted MMI: how much more a path weighs for each wrong frame");
    v("one-silence-class", one_silence_class, "smbr, mpfe: silence phones count as one");
  }
};

/// Whether the reference (a transition-id per frame) is a path of the lattice, which must span its frames.
bool HasReference(const Lattice& lattice, std::span<const int32_t> alignment);
/// Adds the reference as a path of its own, unless the lattice has it. `alignment`: a transition-id per frame.
void AddReference(std::span<const int32_t> alignment, const LatticeCost& cost, Lattice* lattice);

/// By transition-id, [0] unused.
struct TransitionClasses {
  std::vector<int32_t> pdf_ids;
  std::vector<int32_t> classes;  // a frame is right if its class is the reference's
};
TransitionClasses ClassesOf(const hmm::HmmModel& model, const SequenceCriterionOptions& options);

class SequenceCriterion {
 public:
  SequenceCriterion(TransitionClasses transitions, const SequenceCriterionOptions& options)
      : transitions_(std::move(transitions)), options_(options) {}

  /// The utterance's loss. Overwrites `gradient`, unless it is empty, by the loss's derivative by the scores.
  /// `reference`: a transition-id per frame.
  double Loss(const Lattice& lattice, std::span<const int32_t> reference, ConstMatrixView scores,
              MatrixView gradient) const;

  /// The scores that Loss reads of `source`, for which every one costs time; NaN in place of the others.
  Matrix ScoresFor(const Lattice& lattice, std::span<const int32_t> reference, ScoreSource& source) const;

 private:
  bool IsMmi() const { return options_.criterion == "mmi"; }
  // InputError for an id that the model, whose scores are of num_pdfs pdf-ids, does not have.
  int32_t PdfOf(int32_t transition_id, int64_t num_pdfs) const;

  TransitionClasses transitions_;
  SequenceCriterionOptions options_;
};

}  // namespace antiphon::decode
