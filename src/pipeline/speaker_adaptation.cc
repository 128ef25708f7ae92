#include "pipeline/speaker_adaptation.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread_seconds.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/decode_progress.h"
#include "pipeline/utterance_recognizer.h"

namespace antiphon::pipeline {
namespace {

struct Aligned {
  std::vector<int32_t> alignment;
  double seconds = 0.0;
  template <class V>
  void VisitFields(V& v) {
    v(alignment);
    v(seconds);
  }
};

decode::RecognizeOptions BestPathAlone(decode::RecognizeOptions options, double beam, bool in_own_graph) {
  options.search.beam = std::min(options.search.beam, beam);
  if (in_own_graph) options.search.acoustic_scale = 0;  // the Gaussians' own
  options.confidences = false;
  options.nbest = 0;
  return options;
}

constexpr double kSearchShare = 0.8;  // of a pass; the rest is the transforms' estimate

// Nothing: that of the recognition itself.
std::optional<decode::Graph> OwnGraph(const SpeakerAdaptationOptions& options, const AcousticModel& model) {
  const hmm::GmmModel& gmm = *model.adaptive();
  if (!options.graph.empty()) return decode::Graph::Load(options.graph, gmm.hmm);
  if (options.passes > 0 && gmm.hmm.StructureChecksum() != model.hmm().StructureChecksum()) {
    throw UsageError(
        "the network's states are not those of the Gaussians that find speakers' transforms: give --adapt-graph, a "
        "search graph for them, or transforms that are known (--speaker-transforms)");
  }
  return std::nullopt;
}

}  // namespace

// How far the passes are: as a bar of each, and for who asked to be told. All processes have about as much speech.
class PassProgress {
 public:
  PassProgress(const SpokenFeatures& speech, int passes, double frame_shift_s, const Team& team)
      : speech_(speech),
        passes_(passes),
        frame_shift_s_(frame_shift_s),
        shown_(speech.is_told && team.is_first()),
        total_(std::max<int64_t>(
            1, std::accumulate(speech.sizes.begin(), speech.sizes.end(), int64_t{0}) / team.size())) {}

  void BeginPass() {
    bar_ = std::make_unique<DecodeProgress>(fmt::format("adapting to speakers, pass {} of {}", ++pass_, passes_),
                                            total_, shown_);
    done_ = 0;
  }
  // So many more of the utterance's frames are through a step that is this share of the pass.
  void Add(size_t i, int64_t frames, int64_t all_frames, double share_of_pass) {
    if (all_frames <= 0) return;
    const double part = share_of_pass * static_cast<double>(frames) / static_cast<double>(all_frames);
    const double utterance_s = static_cast<double>(all_frames) * frame_shift_s_;
    bar_->Add(part * utterance_s, utterance_s, speech_.sizes[i]);
    if (!speech_.progress) return;
    const std::lock_guard lock(mutex_);
    done_ += part * static_cast<double>(speech_.sizes[i]);
    speech_.progress((pass_ - 1 + std::min(1.0, done_ / static_cast<double>(total_))) / passes_);
  }
  void EndPass() { bar_->Finish(); }

 private:
  const SpokenFeatures& speech_;
  int passes_;
  double frame_shift_s_;
  bool shown_;
  int64_t total_;
  int pass_ = 0;
  std::unique_ptr<DecodeProgress> bar_;
  std::mutex mutex_;
  double done_ = 0.0;  // of the pass, in the unit of sizes
};

namespace {

void ReadInParts(const SpokenFeatures& speech, size_t i, PassProgress& progress, const hmm::UseBaseFeatures& use) {
  const auto features = speech.features(i);
  features->InParts([&](const Matrix& part, bool last) {
    ThrowIfCancelled("adapting to speakers");
    use(part, last);
    progress.Add(i, part.rows(), features->num_frames(), 1 - kSearchShare);
  });
}

}  // namespace

SpeakerAdaptation::SpeakerAdaptation(const AcousticModel& model, const decode::Graph& graph,
                                     const decode::RecognizeOptions& recognize, const decode::PieceOptions& pieces,
                                     const decode::LatticeWeights& weights, double frame_shift_s,
                                     const SpeakerAdaptationOptions& options)
    : model_(*model.adaptive()),
      prior_({.statistics = &model.expected_speech(), .weight = options.prior_frames}),
      own_graph_(OwnGraph(options, model)),
      pieces_(pieces),
      weights_(own_graph_ ? decode::LatticeWeights{decode::AcousticScale({}, model_.hmm), 0.0} : weights),
      frame_shift_s_(frame_shift_s),
      options_(options),
      recognizers_(own_graph_ ? *own_graph_ : graph, model_.hmm,
                   BestPathAlone(recognize, options.beam, own_graph_.has_value())) {}

SpeakerAdaptation::Result SpeakerAdaptation::Adapt(const SpokenFeatures& speech, int num_threads, Team& team) const {
  Result result;
  PassProgress progress(speech, options_.passes, frame_shift_s_, team);
  for (int pass = 1; pass <= options_.passes; ++pass) {
    progress.BeginPass();
    const std::vector<std::vector<int32_t>> alignments = AlignAll(speech, num_threads, team, progress, result);
    const SpokenUtterances spoken{.count = speech.sizes.size(),
                                  .speaker = speech.speaker,
                                  .features = [&](size_t i, const auto& use) { ReadInParts(speech, i, progress, use); },
                                  .alignment = [&](size_t i) { return std::span<const int32_t>(alignments[i]); }};
    result.transforms = EstimateSpeakerTransforms(model_, spoken, options_.min_frames, prior_, num_threads, team);
    progress.EndPass();
    if (!speech.is_told) continue;
    log::Info("adaptation pass {} of {} done, {} speaker transforms", pass, options_.passes, result.transforms.size());
  }
  return result;
}

std::vector<std::vector<int32_t>> SpeakerAdaptation::AlignAll(const SpokenFeatures& speech, int num_threads, Team& team,
                                                              PassProgress& progress, Result& so_far) const {
  std::vector<std::vector<int32_t>> alignments(speech.sizes.size());
  SpreadInOrder<Aligned>(
      team, speech.sizes, num_threads, Spread::kToAll,
      [&](size_t i) {
        ThrowIfCancelled("decoding");
        const double began = ThreadSeconds();
        const auto features = speech.features(i);
        const auto transform = so_far.transforms.find(speech.speaker(i));
        Aligned result;
        result.alignment =
            Align(*features, transform == so_far.transforms.end() ? nullptr : &transform->second,
                  [&](int64_t frames) { progress.Add(i, frames, features->num_frames(), kSearchShare); });
        result.seconds = ThreadSeconds() - began;
        return result;
      },
      [&](size_t i, Aligned&& result) {
        alignments[i] = std::move(result.alignment);
        so_far.cpu_seconds += result.seconds;
      });
  return alignments;
}

std::vector<int32_t> SpeakerAdaptation::Align(UtteranceFeatures& features, const Matrix* transform,
                                              const std::function<void(int64_t frames)>& searched) const {
  if (features.num_frames() == 0 || IsNothingButZeros(features, frame_shift_s_)) {
    searched(features.num_frames());
    return {};
  }
  const auto recognizer = recognizers_.Borrow();
  if (!pieces_.Cuts(features.num_frames(), frame_shift_s_)) {
    const Matrix frames = features.Whole();
    hmm::GmmScorer scores = model_.Scores(frames, transform);
    std::vector<int32_t> alignment = recognizer->BestPathOnly(scores).alignment;
    searched(frames.rows());
    return alignment;
  }
  std::vector<int32_t> alignment;
  decode::RecognizeInPieces pieces(*recognizer, pieces_, weights_, frame_shift_s_, [&](decode::Piece&& piece) {
    const auto& ids = piece.recognition.best.alignment;
    alignment.insert(alignment.end(), ids.begin(), ids.end());
    if (piece.lost) alignment.insert(alignment.end(), static_cast<size_t>(piece.num_frames), 0);
  });
  SearchInPieces(features, *StreamOf(model_, transform), pieces, searched);
  return alignment;
}

}  // namespace antiphon::pipeline
