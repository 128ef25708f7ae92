// antiphon plan: how best to train a network on a cluster.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench_network.h"
#include "command.h"
#include "data/frame_store.h"
#include "plan/planner.h"
#include "report/text_table.h"
#include "simulation_pages.h"

namespace antiphon::app {
namespace {

constexpr double kFramesPerHour = 360000;

struct PlanCommandOptions {
  std::string layers = "462,5x2048,10217";
  double hours = 100;
  double epochs = 10;
  int devices = 8;
  int minibatch = 256;
  int feat_dim = 40;
  data::FrameStoreOptions store;
  double store_mb_s = 0;
  std::string prefer = "time";
  double price_per_device_hour = 0;
  double largest_price = 0;
  double optimizer_values = 0;
  double codec_gb_s = 0;
  bool all = false;
  plan::MeasuredPasses passes;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, kLayersHelp);
    v("hours", hours, Range{1e-6, 1e9}, "of training speech, at 100 frames per second");
    v("epochs", epochs, Range{1e-3, 1e6}, "passes over it that serial training would need");
    v("devices", devices, Range{1, 1 << 16}, "that there are");
    v("minibatch", minibatch, Range{1, 1 << 20}, "frames of one worker's step");
    v("feat-dim", feat_dim, Range{1, 1 << 20}, "values per frame of the frame store, without context");
    v.Group("store", store);
    v("store-mb-s", store_mb_s, Range{0, 1e9},
      "what all machines together read from where the frame store lies, 10^6 bytes per second; 0: not known");
    v("prefer", prefer, OneOf{{"time", "price"}}, "what should be least");
    v("price-per-device-hour", price_per_device_hour, Range{0, 1e9}, "in any currency");
    v("largest-price", largest_price, Range{0, 1e12}, "plans that cost more are left out; 0: none");
    v("optimizer-values", optimizer_values, Range{0, 1e3},
      "that the optimiser keeps of each weight, for the memory: momentum 1, adam 2");
    v("codec-gb-s", codec_gb_s, Range{0, 1e6},
      "fp32 gradient that a device encodes or decodes, 10^9 bytes per second, unless cluster.host.codecs tells; 0: one "
      "for every 32 GFLOP/s");
    v("all", all, "tell what to expect of every method there is, or why not; also of those that are never recommended");
    v.Group("passes", passes);
  }
};

std::string Describe(const plan::Candidate& c) {
  std::string text = fmt::format("{}, {} device(s){}", c.name, c.result.ranks, c.details);
  for (size_t i = 0; i < c.result.split.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "; stages: " : ", ", c.result.split[i]);
  }
  return text;
}

nlohmann::json OutlookToJson(const plan::MethodOutlook& outlook) {
  nlohmann::json json = {{"method", outlook.method}, {"recommended_ever", outlook.proposed}};
  if (!outlook.why_not.empty()) {
    json["why_not"] = outlook.why_not;
    return json;
  }
  json["expected"] = ToJson(outlook.candidate);
  json["parallel"] = outlook.candidate.table;
  json["how_sure"] = outlook.how_sure;
  return json;
}

// What the data take, and how fast a plan goes through them.
nlohmann::json TellOfData(const PlanCommandOptions& options, const plan::Candidate& best, CommandContext& context) {
  const double frames = options.hours * kFramesPerHour;
  const double bytes = data::EstimateStoreBytes(frames, options.feat_dim, options.store);
  const double shards = std::ceil(bytes / (static_cast<double>(options.store.shard_mib) * (1 << 20)));
  const double epoch_s = frames / best.result.frames_per_second;
  const double needed_mb_s = 1e-6 * bytes / epoch_s;
  context.Print("data: {:.4g} frames of {} values, a frame store of {:.1f} GB in {:.0f} shards", frames,
                options.feat_dim, 1e-9 * bytes, shards);
  context.Print("an epoch takes {:.0f} s (simulated), and reads {:.1f} MB/s", epoch_s, needed_mb_s);
  nlohmann::json json = {{"frames", frames},
                         {"store_bytes", bytes},
                         {"shards", shards},
                         {"epoch_seconds", epoch_s},
                         {"needed_mb_per_second", needed_mb_s}};
  if (options.store_mb_s > 0) {
    const double read_s = 1e-6 * bytes / options.store_mb_s;
    json["read_seconds"] = read_s;
    context.Print("reading the store takes {:.0f} s{}", read_s,
                  read_s > epoch_s
                      ? ": longer than learning from it; keep it nearer, or in a cache that holds all of it"
                      : ", while others are learnt from");
  }
  return json;
}

void PrintAll(const std::vector<plan::MethodOutlook>& all, CommandContext& context) {
  if (all.empty()) return;
  context.PrintLine("every method, fastest first:");
  for (const plan::MethodOutlook& outlook : all) {
    if (!outlook.why_not.empty()) {
      context.Print("  {}: not here: {}", outlook.method, outlook.why_not);
    } else {
      context.Print("  {:.3g} h: {}{}; {}", outlook.candidate.hours, Describe(outlook.candidate),
                    outlook.proposed ? "" : " (never recommended)", outlook.how_sure);
    }
  }
}

void Plan(const PlanCommandOptions& options, CommandContext& context) {
  plan::PlanRequest request;
  request.dims = ParseLayers(options.layers);
  request.frames = options.hours * kFramesPerHour;
  request.epochs = options.epochs;
  request.devices = options.devices;
  request.minibatch = options.minibatch;
  request.price_per_device_hour = options.price_per_device_hour;
  request.largest_price = options.largest_price;
  request.optimizer_values = options.optimizer_values;
  request.codec_gb_s = options.codec_gb_s;
  request.passes = options.passes;
  request.all = options.all;
  request.prefer_price = options.prefer == "price";
  request.cluster = ReadOptions<comm::ClusterOptions>(context.config().Table("cluster"));
  const plan::Recommendation r = plan::Recommend(request);

  const bool assumed = !context.config().Has("cluster");
  if (assumed) {
    context.PrintLine(
        "No cluster is given: one of this kind is assumed (--set cluster.KEY=VALUE, or a table [cluster] with "
        "--config)");
    context.PrintLine(OptionsToConfig(request.cluster).ToToml());
  }
  context.Print("recommended (simulated): {}", Describe(r.best));
  context.Print("why: {}", r.why);
  std::vector<std::vector<std::string>> rows = {
      {"plan", "hours", "price", "frames/s", "speed-up", "passes", "computing", "GB"}};
  std::vector<plan::Candidate> all = {r.best};
  if (!r.runner_up.name.empty()) all.push_back(r.runner_up);
  all.insert(all.end(), r.others.begin(), r.others.end());
  nlohmann::json others = nlohmann::json::array();
  for (const plan::Candidate& c : all) {
    rows.push_back({Describe(c), fmt::format("{:.3g}", c.hours), fmt::format("{:.2f}", c.price),
                    fmt::format("{:.0f}", c.result.frames_per_second), fmt::format("{:.2f}", c.result.speedup),
                    fmt::format("{:.2f} ×", c.passes), fmt::format("{:.0f} %", 100 * c.result.compute_share),
                    fmt::format("{:.2f}", 1e-9 * c.result.memory_bytes)});
    others.push_back(ToJson(c));
  }
  for (const std::string& line : report::TextTable(rows)) context.PrintLine(line);
  for (const plan::Refusal& refusal : r.refused) context.Print("refused: {}: {}", refusal.name, refusal.reason);
  PrintAll(r.all, context);
  const nlohmann::json data = TellOfData(options, r.best, context);
  context.PrintLine(
      "passes, against serial training's: what is documented, and beyond that assumed (docs/guides/simulation.md)");
  context.PrintLine("The table for `antiphon train`:");
  context.PrintLine("[parallel]\n" + r.best.table);

  nlohmann::json refused = nlohmann::json::array();
  for (const plan::Refusal& refusal : r.refused) {
    refused.push_back({{"plan", refusal.name}, {"reason", refusal.reason}});
  }
  nlohmann::json rules = nlohmann::json::array();
  for (const plan::PassesRule& rule : plan::PassesRules()) {
    rules.push_back({{"method", rule.method}, {"rule", rule.rule}, {"source", rule.source}});
  }
  nlohmann::json json = {{"simulated", true},    {"cluster_assumed", assumed}, {"best", ToJson(r.best)}, {"why", r.why},
                         {"candidates", others}, {"refused", refused},         {"passes_rules", rules}};
  json["parallel"] = r.best.table;
  json["data"] = data;
  for (const plan::MethodOutlook& outlook : r.all) json["methods"].push_back(OutlookToJson(outlook));
  if (!r.runner_up.name.empty()) json["runner_up"] = ToJson(r.runner_up);
  context.SetResult(json.dump(2));
}

REGISTER_COMMAND("plan", PlanCommandOptions, Plan,
                 {.summary = "recommend how to train a network on a cluster",
                  .description = "Tries methods, numbers of workers, periods, codecs and splits on the cluster of the "
                                 "table `cluster`, simulated, and recommends the one that ends first or costs least, "
                                 "with the runner-up and the reason. Says what is impossible, and why.",
                  .example = "antiphon plan --layers 440,7x2048,9304 --hours 309 --devices 16 "
                             "--set cluster.host.gflops=5000 --set cluster.links.between.bandwidth-mb-s=1250",
                  .tables = {"cluster"}});

}  // namespace
}  // namespace antiphon::app
