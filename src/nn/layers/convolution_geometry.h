// Where a convolution's filters lie on its input: what the layer and the scorer's step share.
//
// Patch row h of an output row: the values that the filters see there, by time offset, position, channel.
#pragma once

#include <vector>

#include "nn/layer.h"

namespace antiphon::nn {

struct ConvolutionOptions {
  int channels = 1;
  bool channels_first = false;
  int filters = 0;
  int window = 3;
  int stride = 1;
  bool pad = true;
  std::vector<int> offsets = {0};
  template <class V>
  void Visit(V& v) {
    v("channels", channels, Range{1, 1 << 20}, "values per position of the input");
    v("channels-first", channels_first, "the input is channel after channel (deltas), not position after position");
    v("filters", filters, Range{0, 1 << 20}, "outputs per position");
    v("window", window, Range{1, 1 << 16}, "positions that a filter sees");
    v("stride", stride, Range{1, 1 << 16}, "positions from one output to the next");
    v("pad", pad, "zeros beyond the ends, so that there are as many positions as before");
    v("offsets", offsets, Range{-1000, 1000}, "frames that a filter sees, relative to the current one");
  }
};

struct ConvolutionGeometry {
  explicit ConvolutionGeometry(const LayerArgs& args);
  ConvolutionGeometry(const ConvolutionOptions& its_options, int in_dim);

  int num_offsets() const { return static_cast<int>(options.offsets.size()); }
  int height() const { return height_; }
  int out_height() const { return out_height_; }
  /// Position that the first output's window begins with.
  int first() const { return first_; }
  int out_dim() const { return out_height_ * options.filters; }
  /// Values of a patch that belong to one offset, and all.
  int window() const { return options.window * options.channels; }
  int patch() const { return window() * num_offsets(); }

  /// Patches of an output row, those of `count` offsets from `first` on; `patches` [out_height, count · window].
  void Gather(ConstMatrixView x, int64_t output_row, int64_t streams, int first, int count, MatrixView patches) const;
  /// The same from a row per offset.
  void GatherFrame(const float* frame, int64_t column, MatrixView patches) const;
  /// Adds patches of one offset to the input row that they come from.
  void Scatter(ConstMatrixView patches, int64_t output_row, int64_t streams, int offset, MatrixView dx) const;

  ConvolutionOptions options;
  TimeContext context;

 private:
  int64_t InputRow(int64_t output_row, int64_t streams, int offset) const;

  int height_ = 0;
  int out_height_ = 0;
  int first_ = 0;
};

}  // namespace antiphon::nn
