#include "parallel/part_of_minibatch.h"

#include <algorithm>
#include <span>

namespace antiphon::parallel {
namespace {

// Elements first … last − 1 of each of the equal blocks that `values` consists of, `streams` elements of `width` each.
template <class T>
std::vector<T> OfStreams(std::span<const T> values, int streams, int64_t first, int64_t last, int64_t width = 1) {
  std::vector<T> part;
  const auto block = static_cast<size_t>(streams * width);
  for (size_t at = 0; at < values.size(); at += block) {
    const auto own =
        values.subspan(at + static_cast<size_t>(first * width), static_cast<size_t>((last - first) * width));
    part.insert(part.end(), own.begin(), own.end());
  }
  return part;
}

Matrix RowsOfStreams(ConstMatrixView rows, int streams, int64_t first, int64_t last) {
  const int64_t blocks = rows.rows() / streams;
  Matrix part(blocks * (last - first), rows.cols());
  for (int64_t b = 0; b < blocks; ++b) {
    for (int64_t s = first; s < last; ++s) {
      std::ranges::copy(rows.Row(b * streams + s), part.Row(b * (last - first) + s - first).begin());
    }
  }
  return part;
}

}  // namespace

int64_t PartOfMinibatch::Pieces(const StepInput& whole) {
  const SequenceLayout* const layout = whole.context.sequences;
  if (layout != nullptr) return layout->streams;
  return whole.targets.sequence != nullptr ? 1 : whole.features.rows();
}

PartOfMinibatch::PartOfMinibatch(const StepInput& whole, int64_t first, int64_t last) : input_(whole) {
  whole.context.sequences != nullptr ? CopyStreams(whole, first, last) : SeeFrames(whole, first, last);
}

void PartOfMinibatch::SeeFrames(const StepInput& whole, int64_t first, int64_t last) {
  const auto part = [&](const auto& values, int64_t per_frame) {
    return values.empty() ? values
                          : values.subspan(static_cast<size_t>(first * per_frame),
                                           static_cast<size_t>((last - first) * per_frame));
  };
  input_.features = whole.features.Rows(first, last - first);
  nn::LossTargets& targets = input_.targets;
  if (!targets.total_weight) targets.total_weight = FrameWeight(whole);
  targets.pdf_ids = part(targets.pdf_ids, targets.heads);
  targets.frame_weights = part(targets.frame_weights, 1);
  if (targets.soft.data() != nullptr) targets.soft = targets.soft.Rows(first, last - first);
}

// Rows of one time are a block.
void PartOfMinibatch::CopyStreams(const StepInput& whole, int64_t first, int64_t last) {
  const SequenceLayout& layout = *whole.context.sequences;
  features_ = RowsOfStreams(whole.features, layout.streams, first, last);
  begins_ = OfStreams(layout.begins, layout.streams, first, last);
  lengths_ = OfStreams(layout.lengths, layout.streams, first, last);
  layout_ = {static_cast<int>(last - first), layout.frames, begins_, lengths_};
  input_.features = features_;
  input_.context.sequences = &layout_;

  nn::LossTargets& targets = input_.targets;
  if (!targets.total_weight) {
    const double outputs = static_cast<double>(layout.frames) * layout.streams;
    targets.total_weight = targets.frame_weights.empty() ? outputs : FrameWeight(whole);
  }
  pdf_ids_ = OfStreams(targets.pdf_ids, layout.streams, first, last, targets.heads);
  weights_ = OfStreams(targets.frame_weights, layout.streams, first, last);
  targets.pdf_ids = pdf_ids_;
  targets.frame_weights = weights_;
  if (targets.soft.data() != nullptr) {
    soft_ = RowsOfStreams(targets.soft, layout.streams, first, last);
    targets.soft = soft_;
  }
  if (targets.sequence != nullptr) {
    criterion_rows_ = targets.sequence->RowsOfStreams(static_cast<int>(first), static_cast<int>(last), layout.streams);
  }
}

const StepInput& PartOfMinibatch::Begin() const {
  if (input_.targets.sequence != nullptr) input_.targets.sequence->SetRows(criterion_rows_);
  return input_;
}

}  // namespace antiphon::parallel
