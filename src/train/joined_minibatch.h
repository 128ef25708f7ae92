// Two minibatches as one: single frames behind one another, or streams of chunks side by side.
//
// Streams: the first minibatch's, then as many for the other's, empty ones where it has fewer, so that a stream stays
// where its state is. Shorter chunks are padded. Memory is reused from one to the next.
// Threads: one. What it returns sees its own memory, or after TakeAlone the minibatch's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/sequence_layout.h"
#include "base/time_context.h"
#include "data/minibatch_pool.h"
#include "math/matrix.h"

namespace antiphon::train {

class JoinedMinibatch {
 public:
  /// The minibatch as it is.
  void TakeAlone(const data::Minibatch& own);
  /// Of `other` at most as many frames, or streams, as `own` has. Both in chunks, or neither; `needed`: the frames that
  /// an output needs.
  void Join(const data::Minibatch& own, const data::Minibatch& other, const TimeContext& needed);

  ConstMatrixView features() const { return view_; }
  /// Null for single frames.
  const SequenceLayout* sequences() const { return layout_; }
  /// Outputs of the network, padding included.
  size_t outputs() const { return from_own_.size(); }
  /// Which output of the one minibatch, or of the other, this one is; neither: padding between the two.
  std::optional<size_t> Own(size_t output) const { return Place(from_own_, output); }
  std::optional<size_t> Other(size_t output) const { return Place(from_other_, output); }

 private:
  static constexpr int64_t kNone = -1;
  static std::optional<size_t> Place(const std::vector<int64_t>& places, size_t output) {
    return places[output] == kNone ? std::nullopt : std::optional(static_cast<size_t>(places[output]));
  }
  void JoinFrames(const data::Minibatch& own, const data::Minibatch& other);
  void JoinStreams(const data::Minibatch& own, const data::Minibatch& other, const TimeContext& needed);
  void PutStreams(const data::Minibatch& part, int first_stream, int streams, const TimeContext& needed,
                  std::vector<int64_t>& places);

  ConstMatrixView view_;
  const SequenceLayout* layout_ = nullptr;
  Matrix features_;
  SequenceLayout joined_;
  std::vector<uint8_t> begins_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> from_own_, from_other_;  // of each output
};

}  // namespace antiphon::train
