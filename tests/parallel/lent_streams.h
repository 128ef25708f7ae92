// Chunks of utterances that go on from one another, in memory that the next chunk takes over: what strategies keep of
// them they have to copy.
#pragma once

#include <algorithm>
#include <vector>

#include "parallel/small_learner.h"

namespace antiphon::parallel {

struct StreamOptions {
  bool alone = false;  // chunks do not go on from one another
  float padding = 0;   // value of what stands behind the utterances
};

// Chunks of streams of which this worker has some, in memory that the next chunk takes over. What a frame is depends on
// it and on the one before.
class Streams {
 public:
  static constexpr int kStreams = 4;
  static constexpr int kOutputs = 6;  // frames of a chunk
  static constexpr int kChunksPerUtterance = 3;

  explicit Streams(const TimeContext& context, const StreamOptions& options = {}, int rank = 0, int workers = 1)
      : context_(context), options_(options), first_(rank * kStreams / workers), count_(kStreams / workers) {}

  const StepInput& Chunk(int64_t chunk) {
    const auto count = static_cast<size_t>(count_);
    features_.Resize(context_.InputFrames(kOutputs) * count_, kFeatures);
    pdf_ids_.assign(count * kOutputs, 0);
    weights_.assign(count * kOutputs, 0.0f);
    begins_.assign(count, 0);
    lengths_.assign(count, kOutputs);
    for (int s = 0; s < count_; ++s) FillStream(s, chunk);
    layout_ = {.streams = count_, .frames = kOutputs, .begins = begins_, .lengths = lengths_};
    input_ = {};
    input_.context.training = true;
    input_.context.sequences = &layout_;
    input_.features = features_;
    input_.targets.pdf_ids = pdf_ids_;
    input_.targets.frame_weights = weights_;
    input_.learning_rate = 0.3;
    return input_;
  }
  // What the next chunk would do to the memory, and worse.
  void Spoil() {
    for (int64_t i = 0; i < features_.size(); ++i) features_.data()[i] = 1e6f;
    std::fill(pdf_ids_.begin(), pdf_ids_.end(), 1);
    std::fill(weights_.begin(), weights_.end(), 9.0f);
    std::fill(begins_.begin(), begins_.end(), 1);
    std::fill(lengths_.begin(), lengths_.end(), 1);
    layout_ = {};
  }

 private:
  void FillStream(int s, int64_t chunk) {
    const int stream = first_ + s;
    const int64_t place = (chunk + stream) % kChunksPerUtterance;
    const auto i = static_cast<size_t>(s);
    begins_[i] = options_.alone || place == 0 || chunk == 0 ? 1 : 0;
    if (place + 1 == kChunksPerUtterance) lengths_[i] = kOutputs - 1 - stream % 3;
    const int64_t counts = lengths_[i] + context_.span();
    for (int64_t t = 0; t < features_.rows() / count_; ++t) {
      float* row = features_.view().Row(t * count_ + s).data();
      const std::vector<float> frame = Frame(stream, chunk * kOutputs - context_.left + t);
      for (int c = 0; c < kFeatures; ++c) row[c] = t < counts ? frame[static_cast<size_t>(c)] : options_.padding;
    }
    for (int t = 0; t < lengths_[i]; ++t) {
      const int64_t at = chunk * kOutputs + t;
      const auto n = static_cast<size_t>(t * count_ + s);
      pdf_ids_[n] = (Frame(stream, at)[0] > 0 ? 1 : 0) + (Frame(stream, at - 1)[1] > 0 ? 2 : 0);
      weights_[n] = 1.0f;
    }
  }
  static std::vector<float> Frame(int stream, int64_t frame) {
    Rng rng(17, static_cast<uint64_t>(stream * 100000 + frame + 1000));
    std::vector<float> values(kFeatures);
    for (float& v : values) v = static_cast<float>(rng.Normal());
    return values;
  }

  TimeContext context_;
  StreamOptions options_;
  int first_, count_;
  Matrix features_;
  std::vector<int32_t> pdf_ids_, lengths_;
  std::vector<float> weights_;
  std::vector<uint8_t> begins_;
  SequenceLayout layout_;
  StepInput input_;
};

/// Of the first chunks of all streams.
inline double LossOfStreams(const nn::Network& network, int64_t chunks, const StreamOptions& options = {}) {
  nn::Workspace ws;
  nn::LossResult loss;
  Streams streams(network.time_context(), options);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const StepInput& input = streams.Chunk(chunk);
    nn::ExecContext context;
    context.sequences = input.context.sequences;
    loss += nn::SoftmaxCrossEntropy(network.Forward(context, input.features, ws), input.targets, {});
  }
  return loss.loss();
}

}  // namespace antiphon::parallel
