// What strategies cost and gain: one worker under each against plain training, and several workers of one core each
// against one, on generated frames. Methods take turns, so that a slow moment of the machine hits all of them.
//
// Usage: strategy_bench [WORKERS [MINIBATCH [LAYERS [WIDTH [SENONES [SECONDS [METHOD...]]]]]]]; without methods, all.
// LAYERS "2+3": two convolutional layers of 64 filters below three hidden ones.
// A method may bring keys of its table, and an optimiser: "ssgd,divide='gradients',optimizer=adam".
// Prints one JSON object per line. With one worker, all compute threads compute; with several, one thread each.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/compute_threads.h"
#include "base/random.h"
#include "comm/thread_world.h"
#include "parallel/strategy.h"
#include "parallel/value_share.h"

namespace antiphon::parallel {
namespace {

constexpr int kFramesOfInput = 11;
constexpr int kInputs = kFramesOfInput * 40;
constexpr int kStepsPerTurn = 16;  // no default period is longer
constexpr int kLongTurn = 12;      // of workers who take when free: a turn is a round, at whose end they wait

struct Shape {
  int minibatch = 256;
  int layers = 4;
  int width = 512;
  int senones = 2000;
  int convolutions = 0;
};

constexpr std::string_view kOptimizer = "optimizer=";

std::vector<std::string> Words(const std::string& method) {
  std::vector<std::string> words;
  std::istringstream all(method);
  for (std::string word; std::getline(all, word, ',');) words.push_back(word);
  return words;
}

Config TableOf(const std::string& method) {
  const std::vector<std::string> words = Words(method);
  std::string table = "method = \"" + words.at(0) + "\"\n";
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with(kOptimizer)) table += words[i] + "\n";
  }
  return Config::Parse(table, "bench");
}

Config OptimizerOf(const std::string& method) {
  for (const std::string& word : Words(method)) {
    if (word.starts_with(kOptimizer)) return Config::Parse("type = \"" + word.substr(kOptimizer.size()) + "\"\n", "o");
  }
  return Config::Parse(method == "eamsgd" ? "momentum = 0.9\n" : "", "o");
}

class Worker {
 public:
  // `like`: whose optimiser to take, where methods differ in it.
  Worker(const Shape& shape, const std::string& method, const std::string& like, comm::Communicator& comm)
      : outline_(Config::Parse(Toml(shape), "bench"), kInputs, shape.senones, 1, nn::InitialValues::kOutline),
        parts_(DivideModel(TableOf(method), outline_, comm)),
        network_(Config::Parse(Toml(shape), "bench"), kInputs, shape.senones, 1, nn::InitialValues::kRandom,
                 parts_ ? parts_->Of(comm.rank()) : std::vector<nn::OutputRange>()),
        share_(DivideValues(TableOf(method), network_, comm)),
        optimizer_(
            optim::MakeOptimizer(OptimizerOf(like), share_ ? share_->stepped() : optim::SteppedValues(network_))),
        features_(shape.minibatch, kInputs) {
    Rng rng(1, static_cast<uint64_t>(comm.rank()));
    for (int64_t i = 0; i < features_.size(); ++i) features_.data()[i] = static_cast<float>(rng.Normal());
    for (int i = 0; i < shape.minibatch; ++i) {
      pdf_ids_.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(shape.senones))));
    }
    strategy_ = MakeStrategy(TableOf(method), {.network = &network_,
                                               .optimizer = optimizer_.get(),
                                               .comm = &comm,
                                               .plan = {shape.minibatch, 100000, 1},
                                               .parts = parts_.get(),
                                               .share = share_.get()});
    strategy_->Start();
  }
  void Finish() { strategy_->Finish(); }
  /// Beside weights and activations: what optimiser and strategy hold.
  double held_mb() const { return 1e-6 * static_cast<double>(optimizer_->state_bytes() + strategy_->copy_bytes()); }
  double communication_seconds() const { return communication_seconds_; }
  /// Ranks that hold one replica together count once.
  int replicas() const { return strategy_->data_share().count; }
  /// Of each worker in a turn.
  int steps() const { return strategy_->rounds() != nullptr ? kLongTurn * kStepsPerTurn : kStepsPerTurn; }
  void Turn() {
    if (strategy_->rounds() == nullptr) {
      for (int i = 0; i < steps(); ++i) Step(-1);
      return;
    }
    const DataShare share = strategy_->data_share();
    for (int64_t next = 0, came_back = 1; came_back > 0;) {
      strategy_->rounds()->BeginRound(next, int64_t{steps()} * share.count);
      while (const auto minibatch = strategy_->rounds()->Take()) Step(*minibatch);
      std::tie(next, came_back) = strategy_->rounds()->EndRound();
    }
  }

 private:
  void Step(int64_t minibatch) {
    StepInput input;
    input.context.training = true;
    input.context.step = step_++;
    input.features = features_;
    input.targets.pdf_ids = pdf_ids_;
    input.learning_rate = 0.001;
    input.minibatch = minibatch;
    communication_seconds_ += strategy_->Step(input).communication_seconds;
  }
  static std::string Toml(const Shape& shape) {
    // Over 11 frames' 40 bands, three to one.
    std::string layers;
    for (int i = 0; i < shape.convolutions; ++i) {
      layers += fmt::format(
          "[[layer]]\ntype = \"convolution\"\nchannels = {}\nfilters = 64\nstride = {}\n[[layer]]\ntype = \"relu\"\n",
          i == 0 ? kFramesOfInput : 64, i == 0 ? 3 : 1);
    }
    return layers + fmt::format(
                        "[[layer]]\ntype = \"repeat\"\ntimes = {}\nlayers = [{{type = \"affine\", dim = {}}}, {{type = "
                        "\"sigmoid\"}}]\n[[layer]]\ntype = \"affine\"\n",
                        shape.layers, shape.width);
  }
  nn::Network outline_;
  std::unique_ptr<ModelParts> parts_;  // null: every worker holds the whole
  nn::Network network_;
  std::unique_ptr<ValueShare> share_;  // null: the optimiser steps all that the worker holds
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Strategy> strategy_;
  Matrix features_;
  std::vector<int32_t> pdf_ids_;
  int64_t step_ = 0;
  double communication_seconds_ = 0;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// At once, so that a run which is cut short has shown what it had.
void PrintLine(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

// Those of `asked` (empty: all) that run with `workers` ranks of this program, on a small network as deep as `shape`.
std::vector<std::string> Methods(Shape shape, int workers, const std::vector<std::string>& asked) {
  shape.minibatch = shape.width = shape.senones = 8;
  std::vector<std::string> methods;
  for (const std::string& name : asked.empty() ? StrategyRegistry::Get().Names() : asked) {
    if (name == "serial" || name.starts_with("test-")) continue;
    try {
      comm::RunRanks(workers, [&](comm::Communicator& comm) {
        Worker worker(shape, name, name, comm);
        worker.Turn();
        worker.Finish();
      });
      methods.push_back(name);
    } catch (const Error& e) {
      PrintLine(fmt::format("{{\"method\": \"{}\", \"left_out\": \"{}\"}}", name, e.message()));
    }
  }
  return methods;
}

void OneWorker(const Shape& shape, double seconds, const std::vector<std::string>& methods) {
  const auto comm = comm::MakeSelfCommunicator();
  for (const std::string& method : Methods(shape, 1, methods)) {
    Worker serial(shape, "serial", method, *comm);
    Worker other(shape, method, method, *comm);
    serial.Turn();
    other.Turn();
    std::vector<double> plain, ratios;
    for (const double begin = Now(); Now() - begin < seconds || ratios.size() < 5;) {
      const double start = Now();
      serial.Turn();
      const double middle = Now();
      other.Turn();
      plain.push_back((middle - start) / serial.steps());
      ratios.push_back((Now() - middle) / other.steps() / plain.back());
    }
    PrintLine(
        fmt::format("{{\"method\": \"{}\", \"workers\": 1, \"serial_frames_per_s\": {:.0f}, \"time_ratio\": {:.4f}}}",
                    method, shape.minibatch / Median(plain), Median(ratios)));
  }
}

// Turns of all workers against turns of one of them alone, both with one thread each; and turns of all of them on their
// own, which is what the machine has for so many workers at the time.
void SeveralWorkers(const Shape& shape, int workers, double seconds, const std::vector<std::string>& methods) {
  for (const std::string& method : Methods(shape, workers, methods)) {
    std::vector<double> alone, apart, together;
    double exchange = 0, held_mb = 0, sent_mb = 0;
    int replicas = 1;
    comm::RunRanks(workers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      const bool first = comm.rank() == 0;
      const auto self = comm::MakeSelfCommunicator();
      Worker single(shape, "serial", method, *self);
      Worker one(shape, method, method, comm);
      single.Turn();
      one.Turn();
      const double before = one.communication_seconds();
      int64_t sent = 0;
      const auto turn = [&](Worker& worker, bool takes_part, std::vector<double>& times) {
        comm.Barrier();
        const double start = Now();
        if (takes_part) worker.Turn();
        comm.Barrier();
        if (first) times.push_back((Now() - start) / worker.steps());
      };
      const double begin = Now();
      for (double go_on = 1; go_on > 0;) {
        turn(single, first, alone);
        turn(single, true, apart);
        sent -= comm.bytes_sent();
        turn(one, true, together);
        sent += comm.bytes_sent();
        go_on = first && (Now() - begin < seconds || alone.size() < 3) ? 1 : 0;
        comm.AllReduce(std::span<double>(&go_on, 1));
      }
      double sent_by_all = static_cast<double>(sent);
      comm.AllReduce(std::span<double>(&sent_by_all, 1));
      if (first) {
        sent_mb = 1e-6 * sent_by_all / static_cast<double>(together.size()) / one.steps() / workers;
        replicas = one.replicas();
        held_mb = one.held_mb();
        exchange = (one.communication_seconds() - before) / one.steps();
      }
      one.Finish();
    });
    const double total = std::accumulate(together.begin(), together.end(), 0.0);
    PrintLine(
        fmt::format("{{\"method\": \"{}\", \"workers\": {}, \"one_core_frames_per_s\": {:.0f}, \"speedup\": {:.3f}, "
                    "\"speedup_of_independent_workers\": {:.3f}, \"exchange_share\": {:.3f}, \"sent_mb\": {:.3f}, "
                    "\"held_mb\": {:.1f}}}",
                    method, workers, shape.minibatch / Median(alone), replicas * Median(alone) / Median(together),
                    workers * Median(alone) / Median(apart), exchange / total, sent_mb, held_mb));
  }
}

}  // namespace
}  // namespace antiphon::parallel

int main(int argc, char** argv) {
  using antiphon::parallel::Shape;
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int workers = argument(1, 1);
  Shape shape{argument(2, 256), argument(3, 4), argument(4, 512), argument(5, 2000)};
  if (const char* const hidden = argc > 3 ? std::strchr(argv[3], '+') : nullptr) {
    shape.convolutions = shape.layers;
    shape.layers = std::atoi(hidden + 1);
  }
  const double seconds = argument(6, 4);
  const std::vector<std::string> methods(argv + std::min(argc, 7), argv + argc);
  if (workers == 1) {
    antiphon::parallel::OneWorker(shape, seconds, methods);
  } else {
    antiphon::parallel::SeveralWorkers(shape, workers, seconds, methods);
  }
  return 0;
}
