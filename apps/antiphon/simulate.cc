// antiphon simulate: how fast methods go on a cluster that need not exist, and published scaling beside the model's.
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "bench_network.h"
#include "command.h"
#include "report/text_table.h"
#include "simulation_pages.h"

namespace antiphon::app {
namespace {

struct SimulateCommandOptions {
  bool published = false;
  std::string layers = "462,5x2048,10217";
  std::vector<std::string> methods = {"ssgd", "averaging", "bmuf", "asgd"};
  std::vector<int> workers = {1, 2, 4, 8, 16};
  plan::CostPlan plan;
  std::string html;
  template <class V>
  void Visit(V& v) {
    v("published", published, "simulate what papers published, and show the error of each figure");
    v("layers", layers, kLayersHelp);
    v("methods", methods, "what is simulated; any of those that `antiphon train` has a schedule for");
    v("workers", workers, Range{1, 1 << 20}, "numbers of workers, each simulated");
    v.Group("plan", plan);
    v("html", html, "page to write; empty: none");
  }
};

void Published(const SimulateCommandOptions& options, CommandContext& context) {
  const std::vector<plan::PublishedTable> tables = plan::SimulatePublished();
  nlohmann::json json = nlohmann::json::array();
  for (const plan::PublishedTable& table : tables) {
    context.Print("{} ({}), simulated", table.title, table.source);
    for (const std::string& line : report::TextTable(Rows(table))) context.Print("  {}", line);
    context.Print("  fitted: {}", table.fitted);
    for (const std::string& constant : table.constants) context.Print("  constant: {}", constant);
    context.PrintLine("");
    json.push_back(ToJson(table));
  }
  if (!options.html.empty()) WriteFileAtomically(options.html, PublishedPage(tables));
  context.SetResult(nlohmann::json{{"simulated", true}, {"tables", json}}.dump(2));
}

void Simulate(const SimulateCommandOptions& options, CommandContext& context) {
  if (options.published) return Published(options, context);
  const auto cluster = ReadOptions<comm::ClusterOptions>(context.config().Table("cluster"));
  const plan::CostNetwork network(ParseLayers(options.layers));
  std::vector<SimulatedRun> runs;
  nlohmann::json json = nlohmann::json::array();
  for (const std::string& method : options.methods) {
    for (const int workers : options.workers) {
      SimulatedRun run{options.plan, {}};
      run.plan.method = method;
      run.plan.workers = workers;
      run.result = WithContext([&] { return plan::SimulateCost(network, run.plan, cluster); },
                               [&] { return fmt::format("{} with {} worker(s)", method, workers); });
      json.push_back(ToJson(run));
      runs.push_back(std::move(run));
    }
  }
  context.Print("{}: {:.1f} M weights, {:.0f} frames/s on one device; simulated", options.layers,
                1e-6 * network.weights(), plan::SerialFramesPerSecond(network, options.plan.minibatch, cluster));
  for (const std::string& line : report::TextTable(Rows(runs))) context.PrintLine(line);
  if (!options.html.empty()) {
    WriteFileAtomically(options.html, SimulationPage(runs, options.layers, OptionsToConfig(cluster).ToToml()));
  }
  context.SetResult(nlohmann::json{{"simulated", true}, {"layers", options.layers}, {"runs", json}}.dump(2));
}

REGISTER_COMMAND(
    "simulate", SimulateCommandOptions, Simulate,
    {.summary = "speed of training methods on a simulated cluster",
     .description = "Plays each method's schedule of work and messages through on the cluster of the table `cluster` "
                    "(host, links), without arithmetic, so that thousands of nodes are no burden. With --published, on "
                    "the machines of published experiments. To train on a simulated cluster, with the arithmetic, use "
                    "antiphon train with parallel.world = \"simulated\".",
     .example =
         "antiphon simulate --published --html published.html\n"
         "antiphon simulate --methods bmuf,ssgd --workers 8,64,1024 --set cluster.links.between.bandwidth-mb-s=125",
     .tables = {"cluster"}});

}  // namespace
}  // namespace antiphon::app
