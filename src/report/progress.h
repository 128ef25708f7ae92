// Progress of long work: a bar that redraws itself on a terminal, plain lines now and then in a log.
//
//   Progress progress("epoch 3 of 12", total_frames, "frames");
//   progress.Update(frames_done, fmt::format("loss {:.3f}  acc {:.1f} %", loss, accuracy));
//   progress.Finish();
//
// Shows the share done, rate per second, the caller's note and the time left. Rates come from the last half minute or
// so, so that a slow start does not spoil the estimate. Threads: one thread per Progress. Cost: Update looks at the
// clock and returns unless it is time to draw.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace antiphon::report {

/// Where progress goes; the default draws on standard error if that is a terminal and the program has said that it may,
/// else logs lines; nothing at all where the log tells no more than warnings.
struct ProgressSink {
  bool terminal = false;
  int width = 80;                               // columns of the terminal
  std::function<void(std::string_view)> write;  // raw text on a terminal, one line without its end in a log
  double interval_seconds = 0.2;                // shortest time between two drawings
  static ProgressSink Default();
  /// For programs: a library does not draw on its host's terminal. Before any other thread is there.
  static void AllowTerminal();
  /// Shows nothing.
  static ProgressSink Silent();
};

/// "1:02:03" or "4:05".
std::string FormatDuration(double seconds);
/// "1234", "12.3 k", "4.56 M".
std::string FormatCount(double count);

class Progress {
 public:
  using Clock = std::function<double()>;  // seconds

  Progress(std::string title, int64_t total, std::string unit, ProgressSink sink = ProgressSink::Default(),
           Clock clock = {});
  /// Ends the line on a terminal if Finish was not called (an exception, say).
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of total; note is called only when something is drawn.
  void Update(int64_t done, const std::function<std::string()>& note = {});
  /// Draws the final state.
  void Finish(std::string_view note = {});
  /// Units per second since the start.
  double MeanRate() const;
  /// For work that does not begin at zero (a resumed run).
  void StartAt(int64_t done);
  /// For work of which more becomes known on the way.
  void SetTotal(int64_t total) { total_ = total; }

 private:
  std::string Line(std::string_view note) const;
  void Draw(std::string_view note);
  double CurrentRate() const;

  std::string title_;
  int64_t total_;
  std::string unit_;
  ProgressSink sink_;
  Clock clock_;
  double start_time_;
  int64_t start_done_ = 0;
  int64_t done_ = 0;
  double now_;
  double next_draw_;
  double log_interval_;
  // Start of the window over which the current rate is taken, and of the one that will follow it.
  double window_time_, next_window_time_;
  int64_t window_done_ = 0, next_window_done_ = 0;
  bool line_open_ = false;
};

}  // namespace antiphon::report
