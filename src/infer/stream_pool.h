// Many live streams scored together: frames of all of them go through the network in common batches.
//
// The frame whose deadline comes first goes first; a frame's deadline is its arrival plus deadline_s. A stream whose
// oldest frame is overdue is scored at every second frame, then at every fourth, the scores copied to those between, so
// that it catches up instead of falling behind; a network that carries a state from frame to frame cannot leave any
// out, and is run through all. A network that scores several frames at once, and frame-skip, wait for the frames of an
// evaluation. Streams beyond max_streams are refused. Memory per stream is bounded by the frames that nobody has taken
// yet.
//
//   StreamPool pool(model, {});
//   const int id = pool.Open();
//   pool.Accept(id, frames, now);           // whoever receives audio
//   while (pool.RunBatch(now) > 0) {}       // one or more workers
//   pool.Take(id, …);                       // the stream's search
//
// A lazy model's frames are handed out as the last hidden values of a batch's frames of one stream (TakeFrames), whose
// outputs the stream's search computes as it asks for them: infer/pooled_scorer.h.
//
// Times are seconds of any clock that the caller keeps.
// Threads: all methods may be called from any thread; a stream's frames are accepted by one, taken by one.
// Errors: OverloadError when no stream can be added; ShapeError and InputError as NnetScorer, for the stream concerned
// alone: the others go on. A batch that cannot be computed (no memory) has used up its frames: the streams that they
// came from fail with it, and throw FailedStreamError from Accept, and from Take once the scores from before are taken.
// Source: deadline order as in Liu, Layland, Scheduling algorithms for multiprogramming, JACM 1973; skipped frames:
// Vanhoucke, Devin, Heigold, ICASSP 2013.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "infer/nnet_scorer.h"

namespace antiphon::infer {

class OverloadError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kUsage; }
};

/// Of a stream that cannot go on; of the cause's kind.
class FailedStreamError : public Error {
 public:
  explicit FailedStreamError(const std::exception& cause);
  ErrorKind kind() const noexcept override { return kind_; }

 private:
  ErrorKind kind_;
};

struct StreamPoolOptions {
  int max_streams = 100;
  int batch = 32;
  double deadline_s = 0.1;
  template <class V>
  void Visit(V& v) {
    v("max-streams", max_streams, Range{1, 1 << 20}, "streams at a time; further ones are refused");
    v("batch", batch, Range{1, 4096}, "frames of all streams that go through the network together");
    v("deadline", deadline_s, Range{0.001, 60.0},
      "seconds after which a frame should be scored; later: frames skipped");
  }
};

struct StreamStats {
  int64_t frames = 0;       // scores handed out
  int64_t evaluations = 0;  // frames that went through the network
};

/// Live streams of `frames_per_second` each that `workers` threads, one core each, can score in batches: measured here
/// in about `seconds`, of which `share` may be used, so that bursts are served in time. At least 1.
int MeasureCapacity(const NnetModel& model, const StreamPoolOptions& options, int workers, double frames_per_second,
                    double share = 0.8, double seconds = 0.3);

/// A frame on its way to the stream's search: all its scores, or what a lazy output layer gets them from. Where a frame
/// of the search stands for several of the features (NnetModel::subsampling), its arrival is that of the first.
struct ScoredFrame {
  double arrival = 0;
  std::shared_ptr<const std::vector<float>> scores;
  std::shared_ptr<LazyBlock> block;
  int row = 0;  // in block
};

class StreamPool {
 public:
  /// The model's block_frames must be `batch` or more.
  StreamPool(std::shared_ptr<const NnetModel> model, const StreamPoolOptions& options);

  /// `profile`: the speaker's, bound to the model; null: none.
  int Open(std::shared_ptr<const BoundProfile> profile = nullptr);
  void Close(int stream);
  int num_streams() const;

  void Accept(int stream, ConstMatrixView frames, double now);
  /// No more frames will come.
  void Finish(int stream);

  /// Scores one batch of what is waiting; 0: nothing was waiting. What fails in it is told to its streams, not here,
  /// where the others' batches go on.
  int RunBatch(double now);

  /// Hands the stream's next scores to `use(scores, arrival)`, in order; returns how many. UsageError for lazy models.
  int Take(int stream, const std::function<void(std::span<const float> scores, double arrival)>& use);

  /// The same, lazy models too. A lazy block belongs to the stream: whoever takes its frames asks it.
  std::deque<ScoredFrame> TakeFrames(int stream);
  /// No frame of the stream will come after this one.
  bool IsLastFrame(int stream, int frame) const;
  const NnetModel& model() const { return *model_; }

  StreamStats stats(int stream) const;
  /// Bytes that the stream holds now.
  size_t bytes(int stream) const;

 private:
  struct Stream {
    Stream(const NnetModel& model, std::shared_ptr<const BoundProfile> its_profile)
        : window(model.NewWindow()), profile(std::move(its_profile)) {
      if (model.plan().sequential()) feed.emplace(model);
    }
    FrameWindow window;
    std::shared_ptr<const BoundProfile> profile;
    std::optional<SequenceFeed> feed;
    std::deque<double> arrivals;  // of frames that were not picked yet
    int next = 0;                 // evaluation to be picked
    int in_flight = 0;            // batches that hold frames of this stream: one at a time
    std::deque<ScoredFrame> ready;
    StreamStats stats;
    std::optional<FailedStreamError> failure;  // then nothing is picked any more
  };
  struct Pick {
    std::shared_ptr<Stream> stream;
    std::vector<double> arrivals;  // of the frames that get these scores
  };
  // Streams of a sequential plan, in the order of their rows in a batch.
  struct SequenceBatch {
    std::vector<std::shared_ptr<Stream>> streams;
    std::vector<int> rows;
  };

  std::shared_ptr<Stream> Find(int stream) const;
  int EvaluationsReady(const Stream& stream) const;
  void HandOut(const Pick& pick, ConstMatrixView heads) const;
  std::vector<Pick> PickBatch(double now, PlanMemory& memory);
  SequenceBatch PickSequences(PlanMemory& memory);
  int RunSequences(PlanMemory& memory);
  int RunSequences(SequenceBatch& batch, PlanMemory& memory);
  int RunPicks(std::span<const Pick> picks, PlanMemory& memory);
  // What `run` returns; if it throws, the streams fail, of which it held frames.
  int OrFail(std::span<const std::shared_ptr<Stream>> streams, const std::function<int()>& run);
  int HandOut(std::span<const Pick> picks, const Matrix& scores);
  int HandOut(std::span<const Pick> picks, const Rows& hidden);
  int SkipFor(const Stream& stream, double now) const;

  std::shared_ptr<const NnetModel> model_;
  StreamPoolOptions options_;
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<Stream>> streams_;  // guarded by mutex_, contents too
  int next_id_ = 0;
};

}  // namespace antiphon::infer
