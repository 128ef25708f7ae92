#include "train/joined_minibatch.h"

#include <algorithm>
#include <numeric>

namespace antiphon::train {
namespace {

void CopyRow(ConstMatrixView from, int64_t row, MatrixView to, int64_t place) {
  std::copy(from.Row(row).begin(), from.Row(row).end(), to.Row(place).begin());
}

}  // namespace

void JoinedMinibatch::TakeAlone(const data::Minibatch& own) {
  view_ = own.features;
  layout_ = own.sequences;
  from_own_.resize(own.frame_ids.size());
  std::iota(from_own_.begin(), from_own_.end(), int64_t{0});
  from_other_.assign(own.frame_ids.size(), kNone);
}

void JoinedMinibatch::Join(const data::Minibatch& own, const data::Minibatch& other, const TimeContext& needed) {
  if (own.features.rows() == 0) return TakeAlone(own);
  if (own.sequences == nullptr) {
    JoinFrames(own, other);
  } else {
    JoinStreams(own, other, needed);
  }
  view_ = features_;
}

void JoinedMinibatch::JoinFrames(const data::Minibatch& own, const data::Minibatch& other) {
  const int64_t rows = own.features.rows(), joined = std::min(rows, other.features.rows());
  TakeAlone(own);
  features_.Resize(rows + joined, own.features.cols());
  for (int64_t n = 0; n < rows; ++n) CopyRow(own.features, n, features_, n);
  for (int64_t n = 0; n < joined; ++n) {
    CopyRow(other.features, n, features_, rows + n);
    from_own_.push_back(kNone);
    from_other_.push_back(n);
  }
}

void JoinedMinibatch::JoinStreams(const data::Minibatch& own, const data::Minibatch& other, const TimeContext& needed) {
  const int streams = own.sequences->streams;
  joined_.streams = 2 * streams;
  joined_.frames = std::max(own.sequences->frames, other.sequences->frames);
  const auto outputs = static_cast<size_t>(int64_t{joined_.frames} * joined_.streams);
  features_.Resize(needed.InputFrames(joined_.frames) * joined_.streams, own.features.cols());
  features_.SetZero();
  from_own_.assign(outputs, kNone);
  from_other_.assign(outputs, kNone);
  begins_.assign(static_cast<size_t>(joined_.streams), 1);
  lengths_.assign(static_cast<size_t>(joined_.streams), 0);
  PutStreams(own, 0, streams, needed, from_own_);
  PutStreams(other, streams, std::min(streams, other.sequences->streams), needed, from_other_);
  joined_.begins = begins_;
  joined_.lengths = lengths_;
  layout_ = &joined_;
}

void JoinedMinibatch::PutStreams(const data::Minibatch& part, int first_stream, int streams, const TimeContext& needed,
                                 std::vector<int64_t>& places) {
  const SequenceLayout& layout = *part.sequences;
  for (int s = 0; s < streams; ++s) {
    const auto stream = static_cast<size_t>(first_stream + s);
    begins_[stream] = layout.Begins(s) ? 1 : 0;
    lengths_[stream] = layout.frames - layout.Padding(s);
    for (int64_t t = 0; t < needed.InputFrames(layout.frames); ++t) {
      CopyRow(part.features, t * layout.streams + s, features_, t * joined_.streams + first_stream + s);
    }
    for (int64_t t = 0; t < layout.frames; ++t) {
      places[static_cast<size_t>(t * joined_.streams) + stream] = t * layout.streams + s;
    }
  }
}

}  // namespace antiphon::train
