#include "parallel/strategy_traits.h"

namespace antiphon::parallel {

std::function<std::unique_ptr<StrategyTraits>()> Traits(const StrategyTraits& traits) {
  return [traits] { return std::make_unique<StrategyTraits>(traits); };
}

std::string MethodOf(const Config& parallel) { return parallel.Text("method").value_or("serial"); }

StrategyTraits TraitsOf(const Config& parallel) {
  const std::string method = MethodOf(parallel);
  if (!StrategyTraitsRegistry::Get().Has(method)) return {};
  return *StrategyTraitsRegistry::Get().Create(method);
}

}  // namespace antiphon::parallel
