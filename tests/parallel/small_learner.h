// One worker with a small network, minibatches that are a function of their number, and a strategy by name.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.h"
#include "comm/thread_world.h"
#include "parallel/divided.h"
#include "parallel/strategy.h"
#include "parallel/value_share.h"

namespace antiphon::parallel {

constexpr int kFeatures = 7;
constexpr int kPdfs = 5;
constexpr int kFrames = 16;

/// Deep enough for four stages.
inline nn::Network MakeNetwork() {
  return {Config::Parse("[[layer]]\ntype = \"repeat\"\ntimes = 3\n"
                        "layers = [{type = \"affine\", dim = 9}, {type = \"tanh\"}]\n[[layer]]\ntype = \"affine\"\n",
                        "net"),
          kFeatures, kPdfs, 3};
}

/// A convex problem: softmax regression.
inline nn::Network MakeRegression() {
  return {Config::Parse("[[layer]]\ntype = \"affine\"\n", "net"), kFeatures, kPdfs, 3};
}

struct Minibatch {
  Matrix features;
  std::vector<int32_t> pdf_ids;
  explicit Minibatch(int64_t number, int64_t frames = kFrames) : features(frames, kFeatures) {
    Rng rng(11, static_cast<uint64_t>(number));
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Normal());
    for (int64_t i = 0; i < frames; ++i) pdf_ids.push_back(static_cast<int32_t>(rng.Below(kPdfs)));
  }
  /// Frames first … last of several minibatches on end.
  static Minibatch Joined(const std::vector<int64_t>& numbers) {
    Minibatch joined(0, 0);
    joined.features = Matrix(static_cast<int64_t>(numbers.size()) * kFrames, kFeatures);
    int64_t row = 0;
    for (const int64_t number : numbers) {
      const Minibatch one(number);
      for (int64_t r = 0; r < kFrames; ++r, ++row) {
        std::copy(one.features.Row(r).begin(), one.features.Row(r).end(), joined.features.Row(row).begin());
      }
      joined.pdf_ids.insert(joined.pdf_ids.end(), one.pdf_ids.begin(), one.pdf_ids.end());
    }
    return joined;
  }
};

/// Everything that a worker's strategy needs.
class Learner {
 public:
  Learner(const std::string& parallel_toml, comm::Communicator& comm,
          const std::string& optimizer_toml = "type = \"sgd\"\nmomentum = 0.5\n", nn::Network net = MakeNetwork())
      : communicator(comm),
        parts(DivideModel(Config::Parse(parallel_toml, "parallel"), net, comm)),
        network(parts ? PartOf(net, parts->Of(comm.rank())) : std::move(net)),
        value_share(DivideValues(Config::Parse(parallel_toml, "parallel"), network, comm)),
        optimizer(optim::MakeOptimizer(Config::Parse(optimizer_toml, "optimizer"),
                                       value_share ? value_share->stepped() : optim::SteppedValues(network))),
        strategy(MakeStrategy(Config::Parse(parallel_toml, "parallel"), {.network = &network,
                                                                         .optimizer = optimizer.get(),
                                                                         .comm = &comm,
                                                                         .plan = {kFrames, 100, 3},
                                                                         .parts = parts.get(),
                                                                         .share = value_share.get()})) {
    strategy->Start();
  }

  StepOutput Step(const Minibatch& minibatch, int64_t step, double rate = 0.3, int64_t index = -1) {
    StepInput input;
    input.context.training = true;
    input.context.step = step;
    input.features = minibatch.features;
    input.targets.pdf_ids = minibatch.pdf_ids;
    input.learning_rate = rate;
    input.minibatch = index;
    return strategy->Step(input);
  }
  /// Steps first … last − 1, each on the worker's share of the common order of minibatches, or on what it gets of the
  /// workers' common pool.
  void Train(int64_t first, int64_t last, int rank = 0, int workers = 1) {
    if (strategy->rounds() != nullptr) return TrainRound(first * workers, last * workers);
    const DataShare share = strategy->data_share();
    if (share.readers > 1) {
      rank = share.index;
      workers /= share.readers;
    }
    for (int64_t step = first; step < last; ++step) Step(Minibatch(step * workers + rank), step * workers + rank);
  }
  void TrainRound(int64_t first, int64_t last) {
    for (int64_t came_back = 1; came_back > 0;) {
      strategy->rounds()->BeginRound(first, last);
      while (const auto m = strategy->rounds()->Take()) {
        trained.push_back(*m);
        Step(Minibatch(*m), *m, 0.3, *m);
      }
      std::tie(first, came_back) = strategy->rounds()->EndRound();
    }
  }
  void EndEpoch() {
    strategy->Drain();
    strategy->AfterEpoch();
  }
  /// One step along a gradient of one's own, as if a backward pass had given it.
  void StepAlong(const std::function<void(std::span<const float>, std::span<float>)>& gradient, double rate) {
    StepInput input;
    input.learning_rate = rate;
    std::vector<float> g(network.num_values(), 0.0f);
    input.features = ConstMatrixView(g.data(), 1, 1);
    gradient(std::as_const(network).values(), g);
    nn::GradientSink& sink = strategy->BeginStep(input);
    for (size_t i = network.num_layers(); i-- > 0;) {
      for (nn::Parameter* p : network.layer(i).parameters()) {
        sink.TakeDense(*p, ConstMatrixView(g.data() + p->offset, p->value.rows(), p->value.cols()));
      }
      strategy->AfterLayerBackward(i);
    }
    strategy->AfterStep(input);
  }
  uint64_t End() {
    EndEpoch();
    strategy->Finish();
    return Whole().Hash();
  }
  /// The model; all ranks ask together if they hold parts of it.
  nn::Network Whole() { return WholeOf(communicator, parts.get(), network); }
  std::vector<float> Values() {
    const nn::Network whole = Whole();
    return {whole.values().begin(), whole.values().end()};
  }

  void Save(const std::filesystem::path& file) const {
    SafetensorsWriter writer;
    optimizer->SaveState(writer, "optimizer");
    if (Checkpointable* const state = strategy->state()) state->SaveState(writer, "strategy");
    strategy->SaveStreams(writer, "streams");
    writer.Add("values", network.values());
    for (const nn::Parameter* p : network.buffers()) writer.Add("buffer." + p->name, p->value);
    writer.Write(file);
  }
  void Load(const std::filesystem::path& file) {
    const SafetensorsReader reader(file);
    LoadValues(reader, "values", network.values());
    for (nn::Parameter* p : network.buffers()) {
      reader.ReadInto("buffer." + p->name, p->value);
      p->MarkChanged();
    }
    network.MarkChanged();
    optimizer->LoadState(reader, "optimizer");
    if (Checkpointable* const state = strategy->state()) state->LoadState(reader, "strategy");
    strategy->LoadStreams(reader, "streams");
  }

  comm::Communicator& communicator;
  std::unique_ptr<ModelParts> parts;  // null: every rank holds the whole
  nn::Network network;
  std::unique_ptr<ValueShare> value_share;  // null: the optimiser steps all that the rank holds
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Strategy> strategy;
  std::vector<int64_t> trained;  // minibatches that TrainRound got
};

/// Runs body(rank, comm) in one thread per rank, with a deadline that a test survives; what it returns, in the order of
/// ranks.
template <class Body>
auto OnRanks(int workers, Body body) {
  using Result = decltype(body(std::declval<comm::Communicator&>()));
  static_assert(!std::is_same_v<Result, bool>, "threads would write the same byte");
  std::vector<Result> results(static_cast<size_t>(workers));
  comm::RunRanks(workers, [&](comm::Communicator& comm) {
    comm.set_deadline_seconds(60);
    results[static_cast<size_t>(comm.rank())] = body(comm);
  });
  return results;
}

inline double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

}  // namespace antiphon::parallel
