#include "train/component_options.h"

#include <algorithm>

#include "adapt/method.h"
#include "base/check.h"
#include "base/option_recorder.h"
#include "comm/thread_world.h"
#include "compress/method.h"
#include "nn/network.h"
#include "optim/optimizer.h"
#include "parallel/codec.h"
#include "parallel/strategy.h"

namespace antiphon::train {
namespace {

constexpr int kInputs = 4;
constexpr int kOutputs = 3;
constexpr const char* kChain = "layers = [{ type = \"relu\" }]";
constexpr const char* kMember = "members = [{ layers = [{ type = \"relu\" }] }]";

// What optimisers and strategies work on. Its own options are none of theirs.
struct Bench {
  nn::Network network;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<comm::Communicator> comm = comm::MakeSelfCommunicator();
  Bench() {
    const OptionRecorder aside;
    network = {Config::Parse("[[layer]]\ntype = \"affine\"", "network"), kInputs, kOutputs, 1};
    optimizer = optim::MakeOptimizer(Config(), network);
  }
};

template <class Registry>
ComponentFamily Family(std::string name, std::string title, std::string where) {
  return {std::move(name), std::move(title), std::move(where), Registry::Get().Names(),
          [](const std::string& component, const Config& table) { Registry::Get().Create(component, table); }};
}

ComponentFamily Layers() {
  std::vector<std::string> names = nn::LayerRegistry::Get().Names();
  for (const std::string& name : nn::LayerExpansionRegistry::Get().Names()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return {"layer",
          "Layers",
          "`type` of a `[[network.layer]]`",
          names,
          [](const std::string& component, const Config& table) {
            const auto make = [](const std::string& type, const Config& layer) {
              nn::LayerRegistry::Get().Create(type, nn::LayerArgs{.in_dim = kInputs, .config = layer});
            };
            if (!nn::LayerExpansionRegistry::Get().Has(component)) return make(component, table);
            // Its own options are read here, or those of the layers for which it stands.
            const auto expansion = nn::LayerExpansionRegistry::Get().Create(component, table);
            if (!OptionRecorder::Current()->structs().empty()) return;
            for (const Config& layer : expansion->layers) make(layer.RequiredText("type"), layer);
          },
          {{"bidirectional", kChain}, {"ensemble", kMember}, {"residual", kChain}}};
}

ComponentFamily Optimizers() {
  return {"optimizer", "Optimisers", "`type` of the table `optimizer`", optim::OptimizerRegistry::Get().Names(),
          [](const std::string& component, const Config& table) {
            Bench bench;
            optim::OptimizerRegistry::Get().Create(component, table, bench.network);
          }};
}

ComponentFamily Strategies() {
  return {"strategy", "Parallel methods", "`method` of the table `parallel`", parallel::StrategyRegistry::Get().Names(),
          [](const std::string& component, const Config& table) {
            Bench bench;
            parallel::StrategyRegistry::Get().Create(
                component, table,
                {.network = &bench.network, .optimizer = bench.optimizer.get(), .comm = bench.comm.get()});
          }};
}

}  // namespace

const std::vector<ComponentFamily>& ComponentFamilies() {
  static const std::vector<ComponentFamily> families = {
      Layers(),
      Optimizers(),
      Strategies(),
      Family<parallel::CodecRegistry>("codec", "Codecs", "`type` of the table `parallel.codec`"),
      Family<compress::MethodRegistry>(
          "compression", "Methods of compression",
          "`--method` of `antiphon compress`; the options stand in the table of that name"),
      Family<adapt::MethodRegistry>("adaptation", "Methods of adaptation",
                                    "`--method` of `antiphon adapt`; the options stand in the table of that name")};
  return families;
}

const ComponentFamily& FamilyNamed(std::string_view name) {
  const auto& families = ComponentFamilies();
  const auto it = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.name == name; });
  CHECK(it != families.end()) << "no family of components is called " << name;
  return *it;
}

std::vector<OptionDescription> DescribeComponent(const ComponentFamily& family, const std::string& component) {
  const auto least = family.least.find(component);
  return ReadComponent(family, component,
                       least == family.least.end() ? Config() : Config::Parse(least->second, component));
}

std::vector<OptionDescription> ReadComponent(const ComponentFamily& family, const std::string& component,
                                             const Config& table) {
  if (std::find(family.names.begin(), family.names.end(), component) == family.names.end()) {
    throw UsageError(table.Where() + ": " + UnknownNameMessage(family.name, component, family.names));
  }
  OptionRecorder recorder;
  try {
    family.make(component, table);
  } catch (const Error&) {
    // What comes after its options were read depends on the network and the run that it is for.
    if (!recorder.complete()) throw;
  }
  std::vector<OptionDescription> options;
  for (const auto& fields : recorder.structs()) {
    for (const OptionDescription& field : fields) {
      const bool known =
          std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == field.name; });
      if (!known) options.push_back(field);
    }
    // A component reads its own options first; layers that stand for others have those of both.
    if (family.name != "layer") break;
  }
  return options;
}

}  // namespace antiphon::train
