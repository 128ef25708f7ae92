// How far a command that goes through the utterances of a table is, in seconds of speech: utterances may be of hours.
//
// Threads: Add may be called from several. Only the first process of a team shows anything, of its own share of the
// work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "report/progress.h"

namespace antiphon::pipeline {

class DecodeProgress {
 public:
  /// `total`: of all utterances, in the unit of Add's `size`. The seconds that this stands for are known when the first
  /// of them are done.
  DecodeProgress(std::string title, int64_t total, bool shown,
                 report::ProgressSink sink = report::ProgressSink::Default(), report::Progress::Clock clock = {})
      : title_(std::move(title)), total_(total), shown_(shown), sink_(std::move(sink)), clock_(std::move(clock)) {}

  /// So many more seconds of speech are done, of an utterance that has `utterance_s` in all and this `size`.
  void Add(double seconds, double utterance_s, int64_t size) {
    if (!shown_ || utterance_s <= 0) return;
    const std::lock_guard lock(mutex_);
    if (!bar_) {
      const double all_s = utterance_s * static_cast<double>(total_) / static_cast<double>(std::max<int64_t>(size, 1));
      bar_ = std::make_unique<report::Progress>(title_, std::max<int64_t>(1, static_cast<int64_t>(all_s)),
                                                "s of speech", sink_, clock_);
      seconds_of_size_ = utterance_s / static_cast<double>(std::max<int64_t>(size, 1));
    }
    done_ += seconds / utterance_s * static_cast<double>(size) * seconds_of_size_;
    bar_->Update(static_cast<int64_t>(done_));
  }
  void Finish() {
    if (bar_) bar_->Finish();
  }

 private:
  std::string title_;
  int64_t total_;
  bool shown_;
  report::ProgressSink sink_;
  report::Progress::Clock clock_;
  std::mutex mutex_;
  std::unique_ptr<report::Progress> bar_;
  double seconds_of_size_ = 0.0;
  double done_ = 0.0;
};

}  // namespace antiphon::pipeline
