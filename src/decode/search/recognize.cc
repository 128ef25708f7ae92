#include "decode/search/recognize.h"

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "decode/lattice/confidence.h"
#include "decode/lattice/minimum_bayes_risk.h"

namespace antiphon::decode {
namespace {

RecognizeOptions WithScaleOf(RecognizeOptions options, const hmm::HmmModel& model) {
  options.search.acoustic_scale = AcousticScale(options.search, model);
  return options;
}

}  // namespace

std::unique_ptr<const WordBias> MakeBias(const Graph& graph, const WordBiasOptions& options) {
  if (options.empty()) return nullptr;
  auto bias = std::make_unique<const WordBias>(graph, options);
  for (const std::string& remark : bias->remarks()) log::Warn("{}", remark);
  return bias;
}

Recognizer::Recognizer(const Graph& graph, const hmm::HmmModel& model, const RecognizeOptions& options,
                       const LmRescorer* rescorer, const WordBias* bias)
    : graph_(graph),
      model_(model),
      options_(WithScaleOf(options, model)),
      rescorer_(rescorer),
      head_start_(bias != nullptr ? bias->LargestBonus() : 0.0),
      decoder_(graph, options_.search, bias) {
  CHECK(graph.lexicon() != nullptr);
}

void Recognizer::Start() {
  decoder_.Restart();
  contrast_.Clear();
  said_.clear();
}

void Recognizer::Advance(ScoreSource& scores, int max_frames) {
  if (!options_.contrast) return decoder_.Advance(scores, max_frames);
  MeasuredScores measured(scores, contrast_);
  decoder_.Advance(measured, max_frames);
}

Recognition Recognizer::Recognize(ScoreSource& scores, const LatticeWeights& weights) {
  Start();
  try {
    Advance(scores);
  } catch (const ShapeError&) {
    throw;  // wrong for all utterances
  } catch (const InputError& e) {
    Recognition nothing;
    nothing.remark = e.what();
    return nothing;
  }
  return Finish(weights);
}

Recognition Recognizer::Finish(const LatticeWeights& weights) {
  decoder_.Finish();
  if (decoder_.num_frames() == 0) {
    Recognition nothing;
    nothing.remark = kNoFrames;
    return nothing;
  }
  const bool ended = decoder_.ReachedFinal();
  Recognition result = Describe(decoder_.RawLattice(), decoder_.num_frames(), weights, ended);
  if (!ended) {
    result.remark =
        "no hypothesis ends with the utterance (too short, cut off, or the beam is too small); the best unfinished one "
        "is taken";
  } else if (result.best.words.empty()) {
    result.remark = kNoWords;
  }
  return result;
}

Recognition Recognizer::Cut(int frame, const PathAnchor& anchor, const LatticeWeights& weights) {
  Recognition result = Describe(decoder_.CutBefore(frame, anchor), frame, weights, /*ends=*/false);
  contrast_.CutBefore(frame);
  said_.insert(said_.end(), result.best.words.begin(), result.best.words.end());
  return result;
}

Recognition Recognizer::Describe(const Lattice& raw, int num_frames, const LatticeWeights& weights, bool ends) const {
  Recognition result;
  result.num_frames = num_frames;
  result.contrast = contrast_.Value();
  result.lattice =
      Determinize(raw, {options_.search.acoustic_scale, options_.search.lattice_beam, options_.max_lattice_arcs});
  if (rescorer_ != nullptr) result.lattice = rescorer_->Rescore(result.lattice, said_, ends);
  result.best = ChosenPath(result.lattice, weights);
  result.times = FindTimes(model_, *graph_.lexicon(), result.best);
  if (options_.confidences) result.confidences = WordConfidences(result.lattice, weights, result.best.words);
  if (options_.nbest > 0) result.nbest = NBest(result.lattice, weights, options_.nbest);
  return result;
}

LatticePath Recognizer::BestPathOnly(ScoreSource& scores) {
  decoder_.Restart();
  try {
    decoder_.Advance(scores);
  } catch (const ShapeError&) {
    throw;
  } catch (const InputError&) {
    return {};
  }
  decoder_.Finish();
  return decoder_.BestPath();
}

}  // namespace antiphon::decode
