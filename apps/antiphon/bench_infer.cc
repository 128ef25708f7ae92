// antiphon bench infer: frames per second of scoring generated frames, log-softmax included.
#include <omp.h>

#include <nlohmann/json.hpp>

#include "bench_network.h"
#include "command.h"
#include "device/device.h"
#include "kernels/softmax.h"
#include "math/gemm.h"
#include "nn/network.h"

namespace antiphon::app {
namespace {

struct BenchInferOptions {
  std::string layers = "462,5x2048,10217";
  std::string activation = "sigmoid";
  int batch = 100;
  std::string precision = "fp32";
  double seconds = 5;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, "sizes of input, hidden layers and output");
    v("activation", activation, OneOf{{"sigmoid", "relu", "tanh"}}, "of the hidden layers");
    v("batch", batch, Range{1, 1 << 20}, "frames scored together");
    v("precision", precision, OneOf{{"fp32", "bf16", "int8"}}, "of the matrix products");
    v("seconds", seconds, Range{0.1, 3600}, "time to measure");
  }
};

void BenchInfer(const BenchInferOptions& options, CommandContext& context) {
  const std::vector<int> dims = ParseLayers(options.layers);
  if (options.precision == "int8")
    throw UsageError("--precision int8 is not available in this version; use fp32 or bf16");
  omp_set_num_threads(context.threads());
  const nn::Network network(NetworkOf(dims, options.activation), dims.front(), dims.back(), context.seed());
  Matrix x(options.batch, dims.front());
  Rng rng(context.seed());
  for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
  const nn::ExecContext ctx{.precision = ParsePrecision(options.precision)};
  nn::Workspace ws;
  const auto score = [&] {
    const MatrixView y = network.Forward(ctx, x, ws);
    Softmax(true, y, y);
  };
  score();
  std::vector<double> seconds;
  StopWatch watch;
  for (double spent = 0; spent < options.seconds || seconds.size() < 5; spent += seconds.back()) {
    watch.Lap();
    score();
    seconds.push_back(watch.Lap());
  }
  const double rate = options.batch / Median(seconds);
  const std::string cpu = GetDevice("cpu").Describe();
  context.Print("{:10.1f} frames/s, batch {}, {}, {} thread(s), {} on {}", rate, options.batch, options.precision,
                context.threads(), GemmBackend(), cpu);
  const nlohmann::json json = {
      {"frames_per_second", rate},      {"layers", options.layers},         {"batch", options.batch},
      {"precision", options.precision}, {"activation", options.activation}, {"threads", context.threads()},
      {"runs", seconds.size()},         {"backend", GemmBackend()},         {"cpu", cpu}};
  context.SetResult(json.dump());
}

REGISTER_COMMAND(
    "bench infer", BenchInferOptions, BenchInfer,
    {.summary = "speed of scoring generated frames",
     .description = "Times the forward pass with log-softmax over batches of generated frames.",
     .example = "antiphon bench infer --layers 462,5x2048,10217 --batch 100 --precision fp32 --threads 1"});

}  // namespace
}  // namespace antiphon::app
