#include "nn/layers/convolution_geometry.h"

#include <algorithm>

#include "nn/layers/affine_base.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

ConvolutionOptions CheckedConvolution(const LayerArgs& args) {
  auto options = ReadLayerOptions<ConvolutionOptions>(args);
  if (options.filters == 0) {
    Throw<UsageError>("{}: a convolution needs `filters`, the number of its outputs per position", args.config.Where());
  }
  if (args.in_dim % options.channels != 0) {
    Throw<UsageError>("{}: {} inputs are no multiple of {} channels", args.config.Where("channels"), args.in_dim,
                      options.channels);
  }
  if (options.offsets.empty()) Throw<UsageError>("{}: expected at least one offset", args.config.Where("offsets"));
  if (!options.pad && options.window > args.in_dim / options.channels) {
    Throw<UsageError>("{}: a window of {} positions on an input of {}", args.config.Where("window"), options.window,
                      args.in_dim / options.channels);
  }
  const int64_t patch = int64_t{options.window} * options.channels * std::ssize(options.offsets);
  const int64_t outputs = int64_t{args.in_dim / options.channels} * options.filters;  // with stride 1
  if (patch > kLargestDim || outputs > kLargestDim) {
    Throw<UsageError>("{}: filters that see {} values and give up to {} outputs; either may be {} at most",
                      args.config.Where(), patch, outputs, kLargestDim);
  }
  return options;
}

}  // namespace

ConvolutionGeometry::ConvolutionGeometry(const LayerArgs& args)
    : ConvolutionGeometry(CheckedConvolution(args), args.in_dim) {}

ConvolutionGeometry::ConvolutionGeometry(const ConvolutionOptions& its_options, int in_dim)
    : options(its_options), height_(in_dim / its_options.channels) {
  const auto [earliest, latest] = std::minmax_element(options.offsets.begin(), options.offsets.end());
  context = {std::max(0, -*earliest), std::max(0, *latest), 1};
  first_ = options.pad ? -((options.window - 1) / 2) : 0;
  out_height_ = (options.pad ? height_ - 1 : height_ - options.window) / options.stride + 1;
}

int64_t ConvolutionGeometry::InputRow(int64_t output_row, int64_t streams, int offset) const {
  return output_row + (context.left + options.offsets[static_cast<size_t>(offset)]) * streams;
}

void ConvolutionGeometry::GatherFrame(const float* frame, int64_t column, MatrixView patches) const {
  const int64_t channels = options.channels;
  for (int64_t h = 0; h < out_height_; ++h) {
    float* to = patches.Row(h).data() + column;
    const int64_t begin = first_ + h * options.stride;
    const int64_t low = std::clamp<int64_t>(-begin, 0, options.window);
    const int64_t high = std::clamp<int64_t>(height_ - begin, low, options.window);
    std::fill_n(to, low * channels, 0.0f);
    if (!options.channels_first) {
      std::copy_n(frame + (begin + low) * channels, (high - low) * channels, to + low * channels);
    } else {
      for (int64_t j = low; j < high; ++j) {
        for (int64_t c = 0; c < channels; ++c) to[j * channels + c] = frame[c * height_ + begin + j];
      }
    }
    std::fill_n(to + high * channels, (options.window - high) * channels, 0.0f);
  }
}

void ConvolutionGeometry::Gather(ConstMatrixView x, int64_t output_row, int64_t streams, int first, int count,
                                 MatrixView patches) const {
  for (int k = 0; k < count; ++k) {
    GatherFrame(x.Row(InputRow(output_row, streams, first + k)).data(), int64_t{k} * window(), patches);
  }
}

void ConvolutionGeometry::Scatter(ConstMatrixView patches, int64_t output_row, int64_t streams, int offset,
                                  MatrixView dx) const {
  const int64_t channels = options.channels;
  float* frame = dx.Row(InputRow(output_row, streams, offset)).data();
  for (int64_t h = 0; h < out_height_; ++h) {
    const float* from = patches.Row(h).data();
    const int64_t begin = first_ + h * options.stride;
    const int64_t low = std::clamp<int64_t>(-begin, 0, options.window);
    const int64_t high = std::clamp<int64_t>(height_ - begin, low, options.window);
    if (!options.channels_first) {
      float* to = frame + (begin + low) * channels;
      for (int64_t i = low * channels; i < high * channels; ++i) *to++ += from[i];
    } else {
      for (int64_t j = low; j < high; ++j) {
        for (int64_t c = 0; c < channels; ++c) frame[c * height_ + begin + j] += from[j * channels + c];
      }
    }
  }
}

}  // namespace antiphon::nn
