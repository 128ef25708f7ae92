// antiphon bench infer: frames per second of scoring generated frames, layer by layer.

#include <nlohmann/json.hpp>

#include "base/compute_threads.h"
#include "bench_network.h"
#include "command.h"
#include "device/device.h"
#include "infer/measure.h"
#include "nn/model.h"
#include "pipeline/bundle.h"

namespace antiphon::app {
namespace {

struct BenchInferOptions {
  std::string layers = "462,5x2048,10217";
  std::string model;
  std::string activation = "sigmoid";
  int batch = 100;
  std::string precision = "fp32";
  std::string isa;
  double seconds = 5;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, kLayersHelp);
    v("model", model, "a model file instead of generated layers");
    VisitActivation(v, activation);
    v("batch", batch, Range{1, 1 << 20}, "frames scored together");
    VisitScoringPrecision(v, precision);
    v("isa", isa, "best instruction set to use (avx2, avx512-vnni …); empty: what the CPU has");
    v("seconds", seconds, Range{0.1, 3600}, "time to measure");
  }
};

// `heads`: frames that one pass is for.
nn::Network TheNetwork(const BenchInferOptions& options, uint64_t seed, int& heads) {
  if (!options.model.empty()) {
    nn::Model model = nn::Model::Load(pipeline::PartsAt(options.model).model);
    heads = model.frames_per_forward;
    return std::move(model.network);
  }
  const std::vector<int> dims = ParseLayers(options.layers);
  return nn::Network(NetworkOf(dims, options.activation), dims.front(), dims.back(), seed);
}

void BenchInfer(const BenchInferOptions& options, CommandContext& context) {
  SetComputeThreads(context.threads());
  int heads = 1;
  const nn::Network network = TheNetwork(options, context.seed(), heads);
  const infer::Plan plan(
      network, {infer::ParsePlanPrecision(options.precision), options.isa.empty() ? BestIsa() : ParseIsa(options.isa)});
  infer::PlanSpeed speed = infer::MeasurePlan(plan, options.batch, options.seconds, true);
  speed.frames_per_second *= heads;
  const std::string cpu = DescribeCpu();
  context.Print("{:12} {:16} {:14} {:>10} {:>12} {:>10}", "layer", "kernel", "isa", "ms", "bytes", "roofline");
  nlohmann::json steps = nlohmann::json::array();
  for (const infer::StepSpeed& step : speed.steps) {
    context.Print("{:12} {:16} {:14} {:10.3f} {:12} {:9.0f}%", step.info.layer, step.info.kernel, step.info.isa,
                  1e3 * step.seconds, step.info.weight_bytes, 100 * step.roofline_share);
    steps.push_back({{"layer", step.info.layer},
                     {"kernel", step.info.kernel},
                     {"isa", step.info.isa},
                     {"seconds", step.seconds},
                     {"weight_bytes", step.info.weight_bytes},
                     {"operations", step.info.operations},
                     {"done_operations", step.info.done_operations},
                     {"roofline_share", step.roofline_share}});
  }
  context.Print("{:10.1f} frames/s, batch {}, {}, {} thread(s), {} MB of weights on {}", speed.frames_per_second,
                options.batch, options.precision, context.threads(), speed.weight_bytes / 1'000'000, cpu);
  const nlohmann::json json = {{"frames_per_second", speed.frames_per_second},
                               {"layers", options.model.empty() ? options.layers : options.model},
                               {"batch", options.batch},
                               {"precision", options.precision},
                               {"activation", options.activation},
                               {"threads", context.threads()},
                               {"runs", speed.runs},
                               {"weight_bytes", speed.weight_bytes},
                               {"workspace_bytes", speed.workspace_bytes},
                               {"steps", steps},
                               {"cpu", cpu}};
  context.SetResult(json.dump());
}

REGISTER_COMMAND(
    "bench infer", BenchInferOptions, BenchInfer,
    {.summary = "speed of scoring generated frames",
     .description =
         "Times the runtime's plan of a network, log-softmax included, over batches of generated frames, and shows "
         "for each layer its kernel, instruction set, time, bytes of weights, and how near that is to what memory "
         "and arithmetic of this machine allow.",
     .example = "antiphon bench infer --layers 462,5x2048,10217 --batch 100 --precision int8 --threads 1"});

}  // namespace
}  // namespace antiphon::app
