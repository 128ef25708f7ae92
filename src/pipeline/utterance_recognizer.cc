#include "pipeline/utterance_recognizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/config.h"

namespace antiphon::pipeline {
namespace {

constexpr int64_t kChunkFrames = 1024;

decode::Recognition WithoutWords(int num_frames, const char* remark) {
  decode::Recognition nothing;
  nothing.num_frames = num_frames;
  nothing.remark = remark;
  return nothing;
}

// Words that lie in zeros as a whole; n-best lists and the lattice keep them. `begin_s`: of the recognition's first
// frame.
void LeaveOutWordsInZeros(const feat::ZeroSpans& zeros, double begin_s, double frame_shift_s, decode::Recognition& r) {
  const auto stays = [&](const decode::TimedWord& word) {
    const double start_s = begin_s + word.begin_frame * frame_shift_s;
    return !zeros.Cover(start_s, start_s + word.num_frames * frame_shift_s, frame_shift_s);
  };
  std::vector<int32_t> new_index(r.times.words.size(), -1);
  size_t kept = 0;
  for (size_t w = 0; w < r.times.words.size(); ++w) {
    if (!stays(r.times.words[w])) continue;
    new_index[w] = static_cast<int32_t>(kept);
    r.times.words[kept] = r.times.words[w];
    r.best.words[kept] = r.best.words[w];
    if (!r.confidences.empty()) r.confidences[kept] = r.confidences[w];
    ++kept;
  }
  if (kept == new_index.size()) return;
  r.times.words.resize(kept);
  r.best.words.resize(kept);
  if (!r.confidences.empty()) r.confidences.resize(kept);
  for (decode::TimedPhone& phone : r.times.phones) {
    if (phone.word_index >= 0) phone.word_index = new_index[static_cast<size_t>(phone.word_index)];
  }
  if (kept == 0 && r.remark.empty()) r.remark = decode::kNoWords;
}

}  // namespace

class UtteranceRecognizer::HardlySpeech {
 public:
  HardlySpeech(const vad::SpeechCertainty& certainty, double least_contrast)
      : certainty_(certainty), least_contrast_(least_contrast) {}

  // Whether the utterance is; counts it.
  bool Is(const decode::Recognition& recognition, double begin_s, double seconds) {
    if (!IsHardlySpeech(recognition, seconds, certainty_.Between(begin_s, begin_s + seconds), least_contrast_)) {
      return false;
    }
    ++utterances_;
    seconds_ += seconds;
    return true;
  }

  void RemarkIn(decode::Recognition& result) const {
    if (utterances_ == 0 || result.remark == kHardlySpeechRemark) return;
    const std::string left_out =
        fmt::format("utterances that are hardly speech: {}, in all {:.1f} s; their words are left out (--vad-contrast)",
                    utterances_, seconds_);
    result.remark = result.remark.empty() ? left_out : result.remark + "; " + left_out;
  }

 private:
  const vad::SpeechCertainty& certainty_;
  double least_contrast_;
  int utterances_ = 0;
  double seconds_ = 0.0;
};

void SearchInPieces(UtteranceFeatures& features, ScoreStream& scores, decode::RecognizeInPieces& pieces,
                    const std::function<void(int64_t frames)>& searched) {
  features.InParts([&](const Matrix& part, bool last) {
    for (int64_t begin = 0; begin < part.rows(); begin += kChunkFrames) {
      ThrowIfCancelled("decoding");
      const int64_t count = std::min(kChunkFrames, part.rows() - begin);
      scores.Accept(part.view().Rows(begin, count), last && begin + count == part.rows());
      pieces.Advance(scores);
      if (searched) searched(count);
    }
  });
  pieces.Finish(scores);
}

double FeatureShiftSeconds(const AcousticModel& model, const std::string& model_file) {
  return Config::Parse(model.features(), model_file).Real("frame-shift-ms").value_or(10.0) / 1000.0;
}

UtteranceRecognizer::UtteranceRecognizer(const AcousticModel& model, const decode::Graph& graph,
                                         const decode::RecognizeOptions& recognize, const decode::PieceOptions& pieces,
                                         const decode::LatticeWeights& weights, double feature_shift_s,
                                         const decode::LmRescorer* rescorer, const decode::WordBias* bias)
    : model_(model),
      pieces_(pieces),
      nbest_(recognize.nbest),
      weights_(weights),
      feature_shift_s_(feature_shift_s),
      frame_shift_s_(feature_shift_s * model.subsampling()),
      recognizers_(graph, model.hmm(), recognize, rescorer, bias) {}

decode::Recognition UtteranceRecognizer::Recognize(UtteranceFeatures& features, const KnownSpeaker& speaker,
                                                   const PieceListener& listener) const {
  const int64_t num_frames = features.num_frames();
  if (IsInPieces(num_frames)) return RecognizeInPieces(features, speaker, listener);
  if (IsNothingButZeros(features, feature_shift_s_))
    return WithoutWords(static_cast<int>(num_frames / model_.subsampling()), feat::kAllZeroRemark);
  decode::Recognition result = RecognizeWhole(features.Whole(), speaker);
  LeaveOutWordsInZeros(features.zeros(), 0.0, frame_shift_s_, result);
  return result;
}

decode::Recognition UtteranceRecognizer::RecognizeWhole(Matrix frames, const KnownSpeaker& speaker) const {
  const auto scores = speaker.transform == nullptr ? model_.Score(std::move(frames), speaker.profile, speaker.heard)
                                                   : model_.ScoreAdapted(frames, *speaker.transform, speaker.profile);
  return recognizers_.Borrow()->Recognize(*scores, weights_);
}

decode::Recognition UtteranceRecognizer::RecognizeInPieces(UtteranceFeatures& features, const KnownSpeaker& speaker,
                                                           const PieceListener& listener) const {
  decode::JoinPieces joined(nbest_);
  const auto recognizer = recognizers_.Borrow();
  const auto scores = model_.Stream(speaker.profile, speaker.transform, speaker.heard);
  decode::RecognizeInPieces pieces(*recognizer, pieces_, weights_, frame_shift_s_,
                                   JoinTo(joined, 0, features.zeros(), nullptr, listener));
  SearchInPieces(features, *scores, pieces, listener.searched);
  return joined.Take(frame_shift_s_);
}

decode::RecognizeInPieces::Callback UtteranceRecognizer::JoinTo(decode::JoinPieces& joined, int64_t begin,
                                                                const feat::ZeroSpans& zeros,
                                                                HardlySpeech* hardly_speech,
                                                                const PieceListener& listener) const {
  return [this, &joined, begin, &zeros, hardly_speech, &listener](decode::Piece&& piece) {
    piece.begin_frame += begin;
    const double begin_s = static_cast<double>(piece.begin_frame) * frame_shift_s_;
    const double seconds = piece.num_frames * frame_shift_s_;
    if (zeros.Cover(begin_s, begin_s + seconds, frame_shift_s_)) {
      piece.recognition = WithoutWords(0, feat::kAllZeroRemark);
    } else if (hardly_speech != nullptr && hardly_speech->Is(piece.recognition, begin_s, seconds)) {
      piece.recognition = WithoutWords(0, kHardlySpeechRemark);
    } else {
      LeaveOutWordsInZeros(zeros, begin_s, frame_shift_s_, piece.recognition);
    }
    joined.Add(piece, weights_);
    if (listener.lattice) listener.lattice(std::move(piece.recognition.lattice));
  };
}

decode::Recognition UtteranceRecognizer::RecognizeTurns(UtteranceFeatures& features, const HeardSpeech& heard,
                                                        double least_contrast, const KnownSpeaker& speaker,
                                                        const PieceListener& listener) const {
  const auto num_frames = static_cast<int>((features.num_frames() + model_.subsampling() - 1) / model_.subsampling());
  const std::vector<RowSpan> spans = RowsOfTurns(features, heard.turns);
  if (spans.empty()) return WithoutWords(num_frames, kNoSpeechRemark);
  decode::JoinPieces joined(nbest_);
  HardlySpeech hardly_speech(heard.certainty, least_contrast);
  const auto recognizer = recognizers_.Borrow();
  std::unique_ptr<ScoreStream> scores;  // of the turn
  std::optional<decode::RecognizeInPieces> pieces;
  const auto search = [&](ConstMatrixView rows, const RowSpan& span, bool last) {
    if (scores == nullptr) {
      scores = model_.Stream(speaker.profile, speaker.transform, speaker.heard);
      pieces.emplace(*recognizer, pieces_, weights_, frame_shift_s_,
                     JoinTo(joined, span.begin / model_.subsampling(), features.zeros(), &hardly_speech, listener));
    }
    scores->Accept(rows, last);
    if (!last) return pieces->Advance(*scores);
    pieces->Finish(*scores);
    scores = nullptr;
  };
  ForRows(features, spans, search, listener.searched);
  decode::Recognition result = joined.Take(frame_shift_s_);
  result.num_frames = num_frames;
  hardly_speech.RemarkIn(result);
  return result;
}

}  // namespace antiphon::pipeline
