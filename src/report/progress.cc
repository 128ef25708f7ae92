#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/log.h"
#include "base/utf8.h"

namespace antiphon::report {
namespace {

constexpr double kWindowSeconds = 15.0;
constexpr double kFirstLogInterval = 10.0;
constexpr double kLongestLogInterval = 300.0;

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string Bar(double share, int columns) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(std::clamp(share, 0.0, 1.0) * columns * 8);
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  const int used = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  return bar + std::string(static_cast<size_t>(columns - used), ' ');
}

bool terminal_allowed = false;

}  // namespace

void ProgressSink::AllowTerminal() { terminal_allowed = true; }

ProgressSink ProgressSink::Default() {
  if (log::Logger().level() > spdlog::level::info) return Silent();
  ProgressSink sink;
  sink.terminal = terminal_allowed && ::isatty(STDERR_FILENO) == 1;
  if (sink.terminal) {
    winsize size{};
    if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) sink.width = size.ws_col;
    sink.write = [](std::string_view text) {
      std::fwrite(text.data(), 1, text.size(), stderr);
      std::fflush(stderr);
    };
  } else {
    sink.write = [](std::string_view line) { log::Info("{}", line); };
  }
  return sink;
}

ProgressSink ProgressSink::Silent() {
  ProgressSink sink;
  sink.write = [](std::string_view) {};
  return sink;
}

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string FormatCount(double count) {
  if (std::abs(count) < 9999.5) return fmt::format("{:.0f}", count);
  if (std::abs(count) < 999.95e3) return fmt::format("{:.1f} k", count / 1e3);
  if (std::abs(count) < 999.95e6) return fmt::format("{:.2f} M", count / 1e6);
  return fmt::format("{:.2f} G", count / 1e9);
}

Progress::Progress(std::string title, int64_t total, std::string unit, ProgressSink sink, Clock clock)
    : title_(std::move(title)),
      total_(total),
      unit_(std::move(unit)),
      sink_(std::move(sink)),
      clock_(clock ? std::move(clock) : Clock(SteadySeconds)),
      start_time_(clock_()),
      now_(start_time_),
      next_draw_(start_time_ + (sink_.terminal ? 0.0 : kFirstLogInterval)),
      log_interval_(kFirstLogInterval),
      window_time_(start_time_),
      next_window_time_(start_time_) {}

Progress::~Progress() {
  if (line_open_) sink_.write("\n");
}

void Progress::StartAt(int64_t done) { start_done_ = done_ = window_done_ = next_window_done_ = done; }

void Progress::Update(int64_t done, const std::function<std::string()>& note) {
  done_ = done;
  now_ = clock_();
  if (now_ - next_window_time_ >= kWindowSeconds) {
    window_time_ = std::exchange(next_window_time_, now_);
    window_done_ = std::exchange(next_window_done_, done);
  }
  if (now_ < next_draw_) return;
  Draw(note ? note() : std::string());
  // In a log, lines come ever more rarely: a run of hours needs no line every ten seconds.
  next_draw_ = now_ + (sink_.terminal ? sink_.interval_seconds : log_interval_);
  log_interval_ = std::min(log_interval_ * 1.5, kLongestLogInterval);
}

void Progress::Finish(std::string_view note) {
  now_ = clock_();
  done_ = std::max(done_, total_);
  Draw(note);
  if (line_open_) sink_.write("\n");
  line_open_ = false;
}

double Progress::MeanRate() const {
  const double seconds = now_ - start_time_;
  return seconds > 0 ? static_cast<double>(done_ - start_done_) / seconds : 0.0;
}

double Progress::CurrentRate() const {
  const double seconds = now_ - window_time_;
  return seconds > 0 ? static_cast<double>(done_ - window_done_) / seconds : 0.0;
}

std::string Progress::Line(std::string_view note) const {
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1.0;
  const double rate = done_ >= total_ ? MeanRate() : CurrentRate();
  std::string tail = fmt::format(" {:3.0f} %  {} {}/s", 100 * std::min(share, 1.0), FormatCount(rate), unit_);
  if (!note.empty()) tail += fmt::format("  {}", note);
  if (done_ < total_ && rate > 0) {
    tail += fmt::format("  {} left", FormatDuration(static_cast<double>(total_ - done_) / rate));
  } else {
    tail += fmt::format("  {}", FormatDuration(now_ - start_time_));
  }
  if (!sink_.terminal) return fmt::format("{}:{}", title_, tail);
  const int room = sink_.width - 1 - static_cast<int>(DisplayColumns(title_) + DisplayColumns(tail)) - 2;
  return title_ + (room >= 5 ? fmt::format(" {}", Bar(share, std::min(room, 30))) : std::string()) + tail;
}

void Progress::Draw(std::string_view note) {
  const std::string line = Line(note);
  if (!sink_.terminal) {
    sink_.write(line);
    return;
  }
  sink_.write("\r\x1b[K" + line);
  line_open_ = true;
}

}  // namespace antiphon::report
