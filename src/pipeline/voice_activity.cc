#include "pipeline/voice_activity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "nn/model.h"
#include "pipeline/bundle.h"
#include "train/warm_start.h"

namespace antiphon::pipeline {
namespace {

constexpr int64_t kRowsAtATime = 1024;

std::string VadModelAt(const std::string& place) {
  const BundleParts parts = PartsAt(place);
  if (!parts.vad.empty()) return parts.vad;
  if (IsBundle(place)) {
    Throw<InputError>("'{}' does not tell speech from other sound; antiphon bundle --vad puts in what can", place);
  }
  return parts.model;
}

}  // namespace

std::shared_ptr<const VoiceActivity> VoiceActivity::Load(const vad::VadOptions& options, double least_contrast) {
  if (!options.on()) return nullptr;
  const std::string file = VadModelAt(options.model);
  auto model = vad::SpeechModel::Load(file);
  const std::string normalisation = train::NormalisationTakenBy(model->network()->model());
  if (!normalisation.empty() && normalisation != "none") {
    Throw<InputError>(
        "'{}' was trained on features with normalisation '{}' by speakers' statistics, which are not known before a "
        "recording ends: make its store without --cmvn",
        file, normalisation);
  }
  return std::shared_ptr<const VoiceActivity>(new VoiceActivity(options, std::move(model), least_contrast));
}

HeardSpeech VoiceActivity::Hear(const data::AudioPieces& audio, int rate_hz) const {
  HeardSpeech heard{.turns = {}, .certainty = NoCertainty()};
  vad::SpeechStream stream = Stream(rate_hz, [&](double probability) { heard.certainty.Accept(probability); });
  std::vector<SpeechTurn>& turns = heard.turns;
  bool open = false;
  int64_t frames = 0;
  const auto take = [&] {
    for (const vad::Run& run : stream.Take()) {
      frames = run.end;
      if (!run.speech) continue;
      if (!std::exchange(open, true)) turns.push_back({static_cast<double>(run.begin) * stream.frame_shift_s(), 0});
      turns.back().end_s = static_cast<double>(run.end) * stream.frame_shift_s();
      open = !run.last;
    }
  };
  audio([&](std::span<const float> piece) {
    ThrowIfCancelled("looking for speech");
    stream.Accept(piece);
    take();
  });
  stream.Finish();
  take();
  // Whatever front end counts its frames differently at the end.
  const double end_s = static_cast<double>(frames) * stream.frame_shift_s();
  if (!turns.empty() && turns.back().end_s >= end_s) turns.back().end_s = std::numeric_limits<double>::infinity();
  return heard;
}

bool IsHardlySpeech(const decode::Recognition& recognition, double seconds, double certainty, double least_contrast) {
  constexpr double kShortestSeconds = 1.2;
  return seconds >= kShortestSeconds && !recognition.best.words.empty() &&
         recognition.contrast * certainty * certainty < least_contrast;
}

std::vector<RowSpan> RowsOf(const std::vector<SpeechTurn>& turns, int64_t num_rows, double row_shift_s,
                            int subsampling) {
  const double frame_shift_s = row_shift_s * subsampling;
  const auto row_at = [&](double time_s) {
    if (time_s >= static_cast<double>(num_rows) * row_shift_s) return num_rows;
    return std::min<int64_t>(num_rows, std::llround(time_s / frame_shift_s) * subsampling);
  };
  std::vector<RowSpan> spans;
  for (const SpeechTurn& turn : turns) {
    const RowSpan span{row_at(turn.begin_s), row_at(turn.end_s)};
    if (span.begin < span.end) spans.push_back(span);
  }
  return spans;
}

void ForRows(UtteranceFeatures& features, const std::vector<RowSpan>& spans, const UseRows& use,
             const std::function<void(int64_t)>& done) {
  int64_t before = 0;
  size_t next = 0;
  features.InParts([&](const Matrix& part, bool) {
    int64_t row = 0;
    while (next < spans.size() && row < part.rows()) {
      ThrowIfCancelled("decoding");
      const RowSpan& span = spans[next];
      row = std::max(row, span.begin - before);
      if (row >= part.rows()) break;
      const int64_t end = std::min({part.rows(), span.end - before, row + kRowsAtATime});
      const bool last = before + end == span.end;
      use(part.view().Rows(row, end - row), span, last);
      if (last) ++next;
      row = end;
    }
    before += part.rows();
    if (done) done(part.rows());
  });
}

TurnFeatures::TurnFeatures(std::shared_ptr<UtteranceFeatures> whole, std::vector<RowSpan> spans)
    : whole_(std::move(whole)), spans_(std::move(spans)) {
  for (const RowSpan& span : spans_) num_frames_ += span.end - span.begin;
}

Matrix TurnFeatures::Whole() {
  Matrix rows;
  int64_t at = 0;
  ForRows(*whole_, spans_, [&](ConstMatrixView some, const RowSpan&, bool) {
    if (rows.empty()) rows = Matrix(num_frames_, some.cols());
    for (int64_t r = 0; r < some.rows(); ++r) std::ranges::copy(some.Row(r), rows.Row(at++).begin());
  });
  return rows;
}

void TurnFeatures::InParts(const Use& use) {
  int64_t handed_out = 0;
  ForRows(*whole_, spans_, [&](ConstMatrixView some, const RowSpan&, bool) {
    handed_out += some.rows();
    use(Matrix(some), handed_out == num_frames_);
  });
}

}  // namespace antiphon::pipeline
