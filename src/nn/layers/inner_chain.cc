#include "nn/layers/inner_chain.h"

#include "base/error.h"
#include "base/toml_text.h"

namespace antiphon::nn {

std::vector<std::string> KeysBesideChain() {
  std::vector<std::string> keys = kCommonLayerKeys;
  keys.emplace_back("layers");
  return keys;
}

Network MakeChain(const LayerArgs& args, std::string_view purpose, uint64_t seed, int default_out_dim) {
  const std::vector<Config> layers = args.config.Tables("layers");
  if (layers.empty()) Throw<UsageError>("{}: `layers` is missing, {}", args.config.Where(), purpose);
  Config chain;
  chain.Set("layer", InlineTomlTables(layers));
  return Network(Config::Parse(chain.ToToml(), args.config.Where()), args.in_dim, default_out_dim, seed,
                 args.random_values ? InitialValues::kRandom : InitialValues::kToBeSet, {},
                 ValueStorage::kOfOuterNetwork);
}

void SetChain(const Network& chain, Config& config) {
  config.Set("layers", InlineTomlTables(Config::Parse(chain.ToToml(), "layers").Tables("layer")));
}

bool IsConstrained(Network& chain) {
  for (size_t i = 0; i < chain.num_layers(); ++i) {
    if (chain.layer(i).constraint() != nullptr) return true;
  }
  return false;
}

ExecContext InsideChain(ExecContext ctx, uint64_t index, uint64_t which) {
  ctx.seed = MixSeed(ctx.seed, 2 * index + which + 1);
  return ctx;
}

}  // namespace antiphon::nn
