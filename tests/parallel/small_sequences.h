// Small networks of sequences, minibatches of streams that are a function of their number, and a worker that trains on
// them: utterances of four chunks that begin at different times, shorter last chunks, which are padded, and states that
// go on from chunk to chunk.
#pragma once

#include <string>
#include <vector>

#include "nn/shifted_product.h"
#include "parallel/small_learner.h"

namespace antiphon::parallel {

constexpr int kStreams = 3;
constexpr int kChunkOutputs = 6;
constexpr int kChunksPerUtterance = 4;

/// Three stages and one for the output layer.
constexpr const char* kSmallTdnn =
    "layer = [{type='tdnn', dim=9}, {type='tanh'}, {type='tdnn', dim=10, offsets=[-2, 0, 1]}, {type='relu'}, "
    "{type='tdnn', dim=9, offsets=[0, 3]}, {type='tanh'}, {type='affine'}]";
constexpr const char* kSmallLstm =
    "layer = [{type='tdnn', dim=9}, {type='lstm', dim=8, projection=6}, {type='lstm', dim=7}, "
    "{type='tdnn', dim=9, offsets=[0, 2]}, {type='tanh'}, {type='affine'}]";

/// While it lives, small time-delay layers take the way of large ones (nn/shifted_product.h).
class AsLargeLayers {
 public:
  AsLargeLayers() { nn::ShiftedProduct::LeastSaved() = 0; }
  ~AsLargeLayers() { nn::ShiftedProduct::LeastSaved() = usual_; }
  AsLargeLayers(const AsLargeLayers&) = delete;
  AsLargeLayers& operator=(const AsLargeLayers&) = delete;

 private:
  const double usual_ = nn::ShiftedProduct::LeastSaved();
};

inline nn::Network MakeSequenceNetwork(const std::string& toml) {
  return {Config::Parse(toml, "net"), kFeatures, kPdfs, 3};
}

/// Chunk `chunk` of each of a worker's streams, with the contents that `number` names.
struct StreamMinibatch {
  Matrix features;
  std::vector<int32_t> pdf_ids;
  std::vector<float> weights;
  std::vector<uint8_t> begins;
  std::vector<int32_t> lengths;
  SequenceLayout layout;

  /// `alone`: chunks do not go on from one another. `outputs` 0: an empty one.
  StreamMinibatch(int64_t number, int64_t chunk, const TimeContext& needed, bool alone = false,
                  int outputs = kChunkOutputs)
      : features(outputs > 0 ? needed.InputFrames(outputs) * kStreams : 0, kFeatures) {
    Rng rng(13, static_cast<uint64_t>(number));
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Normal());
    if (outputs == 0) return;
    for (int s = 0; s < kStreams; ++s) {
      const int64_t place = (chunk + s) % kChunksPerUtterance;
      begins.push_back(alone || place == 0 || chunk == 0 ? 1 : 0);
      lengths.push_back(place + 1 == kChunksPerUtterance ? outputs - 1 - s : outputs);
    }
    layout = {kStreams, outputs, begins, lengths};
    for (int t = 0; t < outputs; ++t) {
      for (int s = 0; s < kStreams; ++s) {
        pdf_ids.push_back(static_cast<int32_t>(rng.Below(kPdfs)));
        weights.push_back(t < lengths[static_cast<size_t>(s)] ? 1.0f : 0.0f);
      }
    }
  }
  StreamMinibatch(const StreamMinibatch&) = delete;
  StreamMinibatch& operator=(const StreamMinibatch&) = delete;

  StepInput Input(int64_t step, double rate = 0.3) const {
    StepInput input;
    input.context.training = true;
    input.context.step = step;
    input.context.sequences = &layout;
    input.features = features;
    input.targets.pdf_ids = pdf_ids;
    input.targets.frame_weights = weights;
    input.learning_rate = rate;
    return input;
  }
};

/// A Learner that reads streams.
class StreamLearner : public Learner {
 public:
  StreamLearner(const std::string& parallel_toml, comm::Communicator& comm, const std::string& network_toml,
                const std::string& optimizer_toml = "type = \"sgd\"\nmomentum = 0.5\n")
      : Learner(parallel_toml, comm, optimizer_toml, MakeSequenceNetwork(network_toml)) {}

  /// As Learner::Train, among all ranks.
  void TrainStreams(int64_t first, int64_t last) {
    const DataShare share = strategy->data_share();

    const int workers = communicator.world_size() / share.readers;
    const int index = communicator.rank() / share.readers;
    if (strategy->rounds() != nullptr) return TakeStreams(first * workers, last * workers, workers > 1);
    for (int64_t step = first; step < last; ++step) StepStreams(step, step * workers + index);
  }
  void StepStreams(int64_t step, int64_t number, int outputs = kChunkOutputs) {
    const StreamMinibatch minibatch(number, step, network.time_context(), false, outputs);
    outcomes.push_back(strategy->Step(minibatch.Input(number)));
  }
  void TakeStreams(int64_t first, int64_t last, bool alone) {
    for (int64_t came_back = 1; came_back > 0;) {
      strategy->rounds()->BeginRound(first, last);
      while (const auto m = strategy->rounds()->Take()) {
        trained.push_back(*m);
        const StreamMinibatch minibatch(*m, *m, network.time_context(), alone);
        StepInput input = minibatch.Input(*m);
        input.minibatch = *m;
        outcomes.push_back(strategy->Step(input));
      }
      std::tie(first, came_back) = strategy->rounds()->EndRound();
    }
  }
  void Drain() {
    for (const StepOutput& output : strategy->Drain()) outcomes.push_back(output);
  }
  /// Logits of the first chunks of other streams, whose states go on from each other; empty on ranks that do not get
  /// them. With a workspace that belongs to evaluation.
  std::vector<float> Evaluate(int64_t chunks) {
    nn::Workspace ws;
    std::vector<float> all;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const StreamMinibatch minibatch(1000 + chunk, chunk, network.time_context());
      nn::ExecContext context;
      context.sequences = &minibatch.layout;
      const MatrixView logits = strategy->Forward(context, minibatch.features, ws);
      if (logits.data() != nullptr) all.insert(all.end(), logits.data(), logits.data() + logits.size());
    }
    return all;
  }
  double loss() const {
    double sum = 0;
    for (const StepOutput& output : outcomes) sum += output.loss.loss_sum;
    return sum;
  }

  std::vector<StepOutput> outcomes;
};

}  // namespace antiphon::parallel
