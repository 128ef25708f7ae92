// How loud the sound of a microphone is, as a bar that redraws itself on a terminal:
//
//   microphone -31 dB [##############      |    ]  -12 dB peak
//
// Loudness is that of a tenth of a second, in dB below full scale: its mean (#) and its highest sample (|). A word
// stands behind it where somebody should do something: too loud, nothing but zeros.
//
// Nothing is shown where there is no terminal. Threads: one per object.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "report/progress.h"

namespace antiphon::report {

class LevelMeter {
 public:
  explicit LevelMeter(int rate_hz, ProgressSink sink = ProgressSink::Default());
  ~LevelMeter();
  LevelMeter(const LevelMeter&) = delete;
  LevelMeter& operator=(const LevelMeter&) = delete;

  /// More samples; draws for every tenth of a second.
  void Accept(std::span<const int16_t> samples);
  /// Makes place for a line of others.
  void Clear();

 private:
  void Draw();
  std::string Line() const;

  int64_t window_;
  ProgressSink sink_;
  int64_t count_ = 0;
  double energy_ = 0;
  int highest_ = 0;
  int64_t zeros_ = 0;  // in a row, up to now
  bool is_drawn_ = false;
};

}  // namespace antiphon::report
