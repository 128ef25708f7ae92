// From the features of one utterance of one speaker to its words: what `antiphon decode` and antiphon::Recognizer both
// do with each utterance.
//
// Short utterances are searched whole; those above PieceOptions::cut_above_s in pieces, in memory that does not grow.
// What is nothing but zeros (feat/zero_spans.h), an utterance or a piece of it, has no words. Where turns of speech are
// known (pipeline/voice_activity.h), each is searched in pieces as an utterance of its own, and nothing between them.
//
// Units: seconds; features are normalised base features at feature_shift_s. Threads: const methods may run together.
// Errors: InputError and ShapeError for features that do not fit the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "decode/graph/graph.h"
#include "decode/search/recognize_in_pieces.h"
#include "decode/search/recognizer_pool.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/utterance_features.h"
#include "pipeline/voice_activity.h"

namespace antiphon::pipeline {

/// What is known of who speaks.
struct KnownSpeaker {
  std::shared_ptr<const infer::BoundProfile> profile = nullptr;  // bound to the model's network; null: none
  const Matrix* transform = nullptr;                             // of a model that adapts; null: not known
  hmm::OnlineIvectorState* heard = nullptr;                      // as AcousticModel::Score
};

/// Told on the way of an utterance that is recognised in pieces.
struct PieceListener {
  std::function<void(decode::Lattice&& lattice)> lattice = {};
  std::function<void(int64_t frames)> searched = {};  // more frames of the features
};

/// Searches an utterance as its scores come in, and hands out its pieces.
void SearchInPieces(UtteranceFeatures& features, ScoreStream& scores, decode::RecognizeInPieces& pieces,
                    const std::function<void(int64_t frames)>& searched = {});

/// Distance of the frames that a model takes, as its front end says.
double FeatureShiftSeconds(const AcousticModel& model, const std::string& model_file);

class UtteranceRecognizer {
 public:
  /// Model, graph, rescorer and bias (null: none) must outlive this.
  UtteranceRecognizer(const AcousticModel& model, const decode::Graph& graph, const decode::RecognizeOptions& recognize,
                      const decode::PieceOptions& pieces, const decode::LatticeWeights& weights, double feature_shift_s,
                      const decode::LmRescorer* rescorer = nullptr, const decode::WordBias* bias = nullptr);

  bool IsInPieces(int64_t num_frames) const { return pieces_.Cuts(num_frames, feature_shift_s_); }
  /// Of an utterance in pieces the recognition has neither lattice nor alignment; the listener gets the lattices.
  decode::Recognition Recognize(UtteranceFeatures& features, const KnownSpeaker& speaker,
                                const PieceListener& listener = {}) const;
  /// Of the turns alone. Utterances in them that are hardly speech (IsHardlySpeech) have no words, and the remark says
  /// how many they are. The recognition has neither lattice nor alignment; the listener gets the lattices.
  decode::Recognition RecognizeTurns(UtteranceFeatures& features, const HeardSpeech& heard, double least_contrast,
                                     const KnownSpeaker& speaker, const PieceListener& listener = {}) const;
  std::vector<RowSpan> RowsOfTurns(const UtteranceFeatures& features, const std::vector<SpeechTurn>& turns) const {
    return RowsOf(turns, features.num_frames(), feature_shift_s_, model_.subsampling());
  }

  double feature_shift_s() const { return feature_shift_s_; }
  /// Of the search's frames, in which a recognition counts.
  double frame_shift_s() const { return frame_shift_s_; }

 private:
  decode::Recognition RecognizeWhole(Matrix frames, const KnownSpeaker& speaker) const;
  decode::Recognition RecognizeInPieces(UtteranceFeatures& features, const KnownSpeaker& speaker,
                                        const PieceListener& listener) const;
  // The words that the utterances of a recording lose.
  class HardlySpeech;
  // What becomes of pieces that begin `begin` frames into the recording. `hardly_speech`: null: none is.
  decode::RecognizeInPieces::Callback JoinTo(decode::JoinPieces& joined, int64_t begin, const feat::ZeroSpans& zeros,
                                             HardlySpeech* hardly_speech, const PieceListener& listener) const;

  const AcousticModel& model_;
  decode::PieceOptions pieces_;
  int nbest_;
  decode::LatticeWeights weights_;
  double feature_shift_s_;
  double frame_shift_s_;
  mutable decode::RecognizerPool recognizers_;
};

}  // namespace antiphon::pipeline
