// One client's speech on its way through the recogniser: pieces in, events out, computed by the scheduler's threads.
//
// Each piece gives one reply, in order, also if nothing became clear by it. After the end, or an error, none follows.
// Words, times and confidences are those of antiphon::Stream for the same samples, bit for bit, whoever else speaks.
//
// Units: seconds of clock.h. Threads: Hear, End and Cancel may be called from any thread; replies come from the
// scheduler's threads, one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/error.h"
#include "antiphon/stream.h"
#include "serve/metrics.h"
#include "serve/scheduler.h"

namespace antiphon::serve {

/// What became clear by a piece of speech, or by its end.
struct Heard {
  std::vector<StreamEvent> events;
  bool end = false;
  std::vector<std::string> audio_remarks;  // Stream::AudioRemarks, with the end
  std::optional<ErrorKind> error;          // the stream is over
  std::string message;                     // of the error
};

struct HearingSettings {
  int sample_rate_hz = 8000;
  double slack_s = 0.0;  // by which its pieces are due after they came
};

class Hearing : public Task, public std::enable_shared_from_this<Hearing> {
 public:
  using Open = std::function<Stream(const CancelToken&)>;
  using Reply = std::function<void(Heard)>;

  /// `open` is called by a thread of the scheduler, with the first piece. All must outlive the scheduler's threads.
  Hearing(Scheduler& scheduler, Metrics& metrics, const HearingSettings& settings, Open open, Reply reply);

  void Hear(std::vector<int16_t> samples);
  /// −1 … 1.
  void Hear(std::vector<float> samples);
  /// No more will come.
  void End();
  /// Nothing is wanted any more: no further reply, except one that is under way.
  void Cancel();

  /// Of speech that waits, what is computed now included.
  double queued_s() const { return static_cast<double>(queued_samples_) / settings_.sample_rate_hz; }
  int queued_pieces() const { return queued_pieces_; }

  void Step() override;

 private:
  struct Piece {
    std::vector<int16_t> pcm = {};
    std::vector<float> samples = {};
    bool end = false;
    double arrival_s = 0;
    size_t size() const { return pcm.size() + samples.size(); }
  };
  void Add(Piece piece);
  std::optional<Piece> Next();
  void SubmitNext();
  std::vector<StreamEvent> Compute(const Piece& piece);

  Scheduler& scheduler_;
  Metrics& metrics_;
  const HearingSettings settings_;
  const CancelToken cancel_;
  Open open_;
  Reply reply_;
  std::optional<Stream> stream_;  // of the thread that runs Step
  std::atomic<int64_t> queued_samples_ = 0;
  std::atomic<int> queued_pieces_ = 0;
  std::mutex mutex_;
  std::deque<Piece> pieces_;  // guarded by mutex_; the first one may be under way
  bool over_ = false;         // guarded by mutex_
};

}  // namespace antiphon::serve
