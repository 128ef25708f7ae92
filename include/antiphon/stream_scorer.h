// Many live streams on one model: frames of all of them go through the network in common batches, each with the profile
// of its speaker.
//
//   const antiphon::Model model("exp/net/model.safetensors");
//   antiphon::StreamScorer scorer(model);
//   auto anna = scorer.Open(model.LoadProfile("anna.safetensors"));
//   auto guest = scorer.Open();
//   anna.Accept(features, now_s);               // whoever receives speech
//   while (scorer.RunBatch(now_s) > 0) {}       // one or more workers
//   std::vector<float> scores = anna.Take();    // for the stream's search
//
// A stream in time gets the scores that Model::LogLikelihoods gives for its frames and profile alone, bit for bit,
// whoever shares its batches. The frame that waits longest goes first. A stream whose oldest frame has waited longer
// than deadline_s is scored at every second, then at every fourth frame, the scores copied to those between, until it
// has caught up; a network that carries a state from frame to frame is run through all frames instead.
//
// Shapes: row by row, one frame per row. Units: seconds of any clock that the caller keeps, the same for all calls; a
// constant skips nothing; scores in nats.
// Ownership: both are moved, not copied. A StreamScorer keeps what it needs of the model, a Stream what it needs of
// both; they may go in any order. A Stream's end closes it.
// Threads: a StreamScorer may be used by many threads at once, and so may its streams; of one stream, Accept and Finish
// belong to one thread, Take to one.
// Errors: antiphon::Error (antiphon/error.h), for the call concerned alone; the other streams go on: kUsage for
// settings and calls that cannot be, kInput for features that are not finite or no whole frames. A stream whose batch
// could not be computed (no memory) cannot go on, as later calls for it say.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "antiphon/export.h"
#include "antiphon/model.h"
#include "antiphon/speaker_profile.h"

namespace antiphon {

struct StreamScorerSettings {
  int max_streams = 100;    // open at a time, 1 or more
  int batch = 32;           // frames of all streams that go through the network together, 1 … 128
  double deadline_s = 0.1;  // above 0
};

class ANTIPHON_API StreamScorer {
 private:
  struct Impl;

 public:
  /// Refuses settings outside their ranges.
  explicit StreamScorer(const Model& model, const StreamScorerSettings& settings = {});
  ~StreamScorer();
  StreamScorer(StreamScorer&&) noexcept;
  StreamScorer& operator=(StreamScorer&&) noexcept;

  class Stream {
   public:
    ~Stream();
    Stream(Stream&&) noexcept;
    Stream& operator=(Stream&&) noexcept;

    /// More frames, as Model::LogLikelihoods takes them. Refuses, and takes none of, features that are no whole frames
    /// or not finite, and any after Finish.
    void Accept(std::span<const float> features, double now_s);
    /// No more frames will come: the last ones wait for none.
    void Finish();
    /// Scores since the last Take, frames × num_outputs, in order.
    std::vector<float> Take();

   private:
    friend class StreamScorer;
    struct State;
    explicit Stream(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };

  /// `profile`: of who speaks, loaded by this scorer's Model; a profile that another one loaded is refused, and so is a
  /// stream beyond max_streams.
  Stream Open(const SpeakerProfile& profile = {});

  /// Scores one batch of what is waiting; returns how many evaluations that took, 0: nothing was waiting.
  int RunBatch(double now_s);

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace antiphon
