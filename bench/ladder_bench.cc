// From a plain loop to the runtime, one step at a time, on the network of Vanhoucke, Senior, Mao, Improving the speed
// of neural networks on CPUs, 2011: 440 inputs, five layers of 2000, 7969 outputs; one core.
//
// Their table ends at 18.5 times the plain loop. Usage: ladder_bench [seconds per row]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "base/compute_threads.h"
#include "base/random.h"
#include "infer/lazy_output.h"
#include "infer/plan.h"

namespace {

using namespace antiphon;

constexpr int kLayers = 6;
constexpr int kDims[kLayers + 1] = {440, 2000, 2000, 2000, 2000, 2000, 7969};
constexpr double kFramesPerSecondOfSpeech = 100;
// What a search asks for: most of it the same in neighbouring frames.
constexpr double kShareOfBlock = 0.25, kShareOfFrame = 0.01;

nn::Network TheNetwork() {
  std::string toml;
  for (int l = 1; l <= kLayers; ++l) {
    toml += fmt::format("[[layer]]\ntype = \"affine\"\ndim = {}\n", kDims[l]);
    if (l < kLayers) toml += "[[layer]]\ntype = \"sigmoid\"\n";
  }
  return nn::Network(Config::Parse(toml, "ladder"), kDims[0], kDims[kLayers], 1);
}

// What anybody would write first.
void PlainLoop(const nn::Network& network, std::vector<float> x) {
  for (size_t l = 0; l < kLayers; ++l) {
    const MatrixView weight = network.parameters()[2 * l]->value, bias = network.parameters()[2 * l + 1]->value;
    std::vector<float> y(static_cast<size_t>(weight.rows()));
    for (int64_t o = 0; o < weight.rows(); ++o) {
      float sum = bias(0, o);
      for (int64_t i = 0; i < weight.cols(); ++i) sum += weight(o, i) * x[static_cast<size_t>(i)];
      y[static_cast<size_t>(o)] = l + 1 < kLayers ? 1.0F / (1.0F + std::exp(-sum)) : sum;
    }
    x = std::move(y);
  }
  volatile float sink = x[0];
  (void)sink;
}

// Median frames per second of a call that does `frames`.
double Rate(double seconds, int frames, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  for (double spent = 0; spent < seconds || times.size() < 3;) {
    const auto start = std::chrono::steady_clock::now();
    call();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    spent += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return frames / times[times.size() / 2];
}

class Ladder {
 public:
  explicit Ladder(double seconds) : seconds_(seconds) {}

  void Run() {
    Print("plain loop, float", Rate(seconds_, 1, [&] { PlainLoop(network_, std::vector<float>(kDims[0], 0.1F)); }));
    Print("SIMD, float", Dense(DataType::kFloat32, 1));
    Print("8 bits", Dense(DataType::kInt8, 1));
    Print("8 bits, 8 frames together", Dense(DataType::kInt8, 8));
    Print("8 bits, lazy outputs", Lazy(1));
    Print("8 bits, 8 frames together, lazy outputs", Lazy(8));
  }

 private:
  static void Fill(infer::PlanMemory& memory, uint64_t seed) {
    Rng rng(seed);
    for (int64_t r = 0; r < memory.max_rows(); ++r) {
      for (float& x : memory.input().Row(r)) x = static_cast<float>(rng.Normal());
    }
  }

  double Dense(DataType type, int frames) const {
    const infer::Plan plan(network_, {type});
    infer::PlanMemory memory(plan, frames);
    Fill(memory, 2);
    Matrix out(frames, kDims[kLayers]);
    return Rate(seconds_, frames, [&] { plan.Run(frames, memory, out); });
  }

  double Lazy(int frames) {
    const infer::Plan plan(network_, {DataType::kInt8});
    infer::PlanMemory memory(plan, frames);
    Fill(memory, 2);
    const infer::LazyOutput output(plan, 0.5);
    infer::LazyBlock block(output);
    Rng rng(3);
    std::vector<std::vector<int32_t>> wanted(static_cast<size_t>(frames));
    for (int32_t pdf = 0; pdf < kDims[kLayers]; ++pdf) {
      const bool by_all = rng.Uniform() < kShareOfBlock;
      for (auto& w : wanted) {
        if (by_all || rng.Uniform() < kShareOfFrame) w.push_back(pdf);
      }
    }
    const double rate = Rate(seconds_, frames, [&] {
      block.Begin(plan.RunHidden(frames, memory));
      for (int f = 0; f < frames; ++f) block.Request(f, wanted[static_cast<size_t>(f)]);
    });
    share_ = static_cast<double>(block.computed()) / static_cast<double>(block.total());
    return rate;
  }

  void Print(const char* name, double rate) {
    if (first_ == 0) first_ = rate;
    fmt::print("{:42} {:9.0f} frames/s  real-time factor {:.4f}  {:6.1f} x", name, rate,
               kFramesPerSecondOfSpeech / rate, rate / first_);
    if (share_ > 0) fmt::print("  ({:.0f} % of the outputs)", 100 * share_);
    fmt::print("\n");
  }

  double seconds_;
  double first_ = 0, share_ = 0;
  const nn::Network network_ = TheNetwork();
};

}  // namespace

int main(int argc, char** argv) {
  SetComputeThreads(1);
  Ladder(argc > 1 ? std::atof(argv[1]) : 2.0).Run();
}
