// The rows of features that belong to turns of speech, while the sound is still coming.
//
//   turns.Hear(samples);            // what is decided by the sound
//   turns.Accept(rows);             // what is decided about
//   while (auto piece = turns.Next()) …
//
// Rows wait here until it is known whether they are speech, which takes a bounded time (vad/speech_stream.h). The rows
// of each turn are the same however sound and rows are cut; how they come in pieces is not.
//
// Units: samples on the 16-bit scale; rows from 0; turns begin and end between frames of the search, which stand for
// `subsampling` rows each. Threads: one per object. Errors: those of the features.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "api/row_queue.h"
#include "math/matrix.h"
#include "pipeline/voice_activity.h"
#include "vad/speech_stream.h"

namespace antiphon {

class LiveTurns {
 public:
  LiveTurns(const pipeline::VoiceActivity& activity, int rate_hz, double row_shift_s, int subsampling)
      : certainty_(activity.NoCertainty()),
        speech_(activity.Stream(rate_hz, [this](double probability) { certainty_.Accept(probability); })),
        frame_shift_s_(row_shift_s * subsampling),
        subsampling_(subsampling) {}
  LiveTurns(const LiveTurns&) = delete;
  LiveTurns& operator=(const LiveTurns&) = delete;

  void Hear(std::span<const float> samples);
  void Accept(ConstMatrixView rows) { waiting_.Accept(rows); }
  /// Neither more sound nor more rows.
  void Finish();

  struct Piece {
    Matrix rows;  // none if the turn turns out to be over already
    int64_t begin = 0;
    bool first = false;
    bool last = false;
  };
  std::optional<Piece> Next();

  /// Of an utterance whose rows were handed out, and that does not begin before what was forgotten.
  double Certainty(int64_t begin_row, int64_t end_row) const;
  void ForgetCertaintyBefore(int64_t row) { certainty_.ForgetBefore(TimeOf(row)); }

 private:
  int64_t RowAt(int64_t frame) const;
  double TimeOf(int64_t row) const {
    const int64_t frame = row / subsampling_;
    return static_cast<double>(frame) * frame_shift_s_;
  }
  Matrix TakeRows(int64_t count);

  vad::SpeechCertainty certainty_;
  vad::SpeechStream speech_;
  double frame_shift_s_;
  int subsampling_;
  std::deque<vad::Run> runs_;  // not followed to their ends
  RowQueue waiting_;
  int64_t row_ = 0;  // the first that waits
  bool in_turn_ = false;
  bool finished_ = false;
};

}  // namespace antiphon
