#include "parallel/stage_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "nn/layer_traits.h"

namespace antiphon::parallel {

namespace {

// Rows that each layer gives per frame of the network's input; the few more that context takes are left out.
std::vector<double> RowRates(const nn::Network& network) {
  std::vector<double> rates;
  double rate = 1;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    rate /= network.layer(i).time_context().stride;
    rates.push_back(rate);
  }
  return rates;
}

// Streams of a measurement with sequences: recurrent layers take a product per frame of all streams.
constexpr int kMeasuredStreams = 16;

}  // namespace

std::vector<double> ModelledLayerCosts(nn::Network& network) {
  // An elementwise pass over memory costs about as much as this many multiply-adds of a matrix product.
  constexpr double kPerOutput = 8;
  const std::vector<double> rates = RowRates(network);
  std::vector<double> costs;
  bool passes_down = false;  // the lowest layer that learns does not
  for (size_t i = 0; i < network.num_layers(); ++i) {
    const auto parameters = network.layer(i).parameters();
    double cost = kPerOutput * network.layer(i).whole_out_dim();
    for (const nn::Parameter* p : parameters) cost += (passes_down ? 3.0 : 2.0) * static_cast<double>(p->whole.size());
    passes_down = passes_down || !parameters.empty();
    costs.push_back(rates[i] * cost);
  }
  return costs;
}

std::vector<double> MeasuredLayerCosts(const nn::Network& network, nn::ExecContext context, int frames) {
  SequenceLayout layout;
  if (network.needs_sequences()) {
    layout = {.streams = kMeasuredStreams, .frames = std::max(1, frames / kMeasuredStreams)};
    context.sequences = &layout;
  }
  const std::vector<double> rates = RowRates(network);
  const std::vector<Config> tables = Config::Parse(network.ToToml(), "network").Tables("layer");
  std::vector<double> costs(network.num_layers(), 0.0);
  Rng rng(1);
  for (size_t first = 0; first < network.num_layers();) {
    size_t last = first + 1;
    while (last < network.num_layers() && !network.begins_range(last)) ++last;
    std::string toml;
    for (size_t i = first; i < last; ++i) toml += "[[layer]]\n" + tables[i].ToToml() + "\n";
    nn::Network unit(Config::Parse(toml, "layers to measure"), network.layer(first).in_dim(), 0, 1);
    std::vector<float> gradient(unit.num_values());
    nn::DenseGradientSink sink(gradient);
    const int64_t rows =
        context.sequences == nullptr ? frames : unit.time_context().InputFrames(layout.frames) * layout.streams;
    Matrix x(rows, unit.in_dim());
    for (int64_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(rng.Normal());
    Matrix dy(context.sequences == nullptr ? frames : int64_t{layout.frames} * layout.streams, unit.out_dim());
    nn::Workspace workspace;
    // The first pass compiles products and touches memory; the best of the others counts.
    double best = std::numeric_limits<double>::infinity();
    for (int pass = 0; pass < 4; ++pass) {
      const auto begin = std::chrono::steady_clock::now();
      unit.Forward(context, x, workspace);
      unit.Backward(context, dy, workspace, sink, first > 0);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      if (pass > 0) best = std::min(best, seconds.count());
    }
    costs[first] = rates[last - 1] * best;
    first = last;
  }
  return costs;
}

std::vector<nn::LayerRange> BalanceStages(const nn::Network& network, std::span<const double> layer_costs, int stages) {
  const size_t layers = layer_costs.size();
  std::vector<size_t> cuts;  // where a stage may begin, and the end
  for (size_t i = 0; i < layers; ++i) {
    // What a splice has copied would cross the border several times.
    const bool above_splice = i > 0 && nn::TraitsOf(network, i - 1).splices;
    if (network.begins_range(i) && !above_splice) cuts.push_back(i);
  }
  const size_t units = cuts.size();
  const auto count = static_cast<size_t>(stages);
  if (stages < 1 || count > units) {
    Throw<UsageError>("{} stages cannot be made of a network that can be cut into {} parts at most: take fewer workers",
                      stages, units);
  }
  cuts.push_back(layers);
  std::vector<double> before(units + 1, 0.0);  // cost of the units below
  for (size_t u = 0; u < units; ++u) {
    before[u + 1] = before[u];
    for (size_t i = cuts[u]; i < cuts[u + 1]; ++i) before[u + 1] += layer_costs[i];
  }
  // best[k][u]: dearest of k stages made of the units below u; from[k][u]: where the last of them begins.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(count + 1, std::vector<double>(units + 1, kNever));
  std::vector<std::vector<size_t>> from(count + 1, std::vector<size_t>(units + 1, 0));
  best[0][0] = 0;
  for (size_t k = 1; k <= count; ++k) {
    for (size_t u = k; u <= units; ++u) {
      for (size_t begin = k - 1; begin < u; ++begin) {
        const double dearest = std::max(best[k - 1][begin], before[u] - before[begin]);
        if (dearest > best[k][u] || best[k - 1][begin] == kNever) continue;
        best[k][u] = dearest;
        from[k][u] = begin;
      }
    }
  }
  std::vector<nn::LayerRange> ranges(count);
  for (size_t k = count, u = units; k > 0; --k) {
    ranges[k - 1] = {cuts[from[k][u]], cuts[u]};
    u = from[k][u];
  }
  return ranges;
}

std::vector<nn::LayerRange> StagesFrom(const nn::Network& network, std::span<const int> first_layers) {
  std::vector<nn::LayerRange> ranges;
  for (size_t k = 0; k < first_layers.size(); ++k) {
    const auto first = static_cast<size_t>(first_layers[k]);
    const size_t last = k + 1 < first_layers.size() ? static_cast<size_t>(first_layers[k + 1]) : network.num_layers();
    if ((k == 0 && first != 0) || first >= last || last > network.num_layers()) {
      Throw<UsageError>("stages must begin with layers 0 < … < {} (the number of layers), in this order",
                        network.num_layers());
    }
    if (!network.begins_range(first)) {
      Throw<UsageError>("a stage cannot begin with layer {} '{}', which is computed together with the one below", first,
                        network.layer_name(first));
    }
    ranges.push_back({first, last});
  }
  return ranges;
}

}  // namespace antiphon::parallel
