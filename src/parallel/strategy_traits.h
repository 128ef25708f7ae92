// What is known of a method of parallel training before there is a strategy: what its workers need of data and model.
//
// A method that has something to say registers it beside its strategy:
//   REGISTER_COMPONENT(StrategyTraitsRegistry, "admm", Traits({.of_own_data = "what its multipliers have learned"}));
// A method without such a line has none of the properties. Threads: read-only. Errors: none; an unknown method has the
// traits of one that says nothing, and is refused where a strategy is made.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/registry.h"

namespace antiphon::parallel {

struct StrategyTraits {
  bool one_worker = false;         // there may be no others
  std::string of_own_data = "";    // what a worker learns of its own data alone, so that it should keep them
  bool keeps_minibatches = false;  // looks at minibatches again after their step
  bool takes_when_free = false;    // workers take a minibatch of the common order whenever they are free
  bool divides_network = false;    // works on ranges of layers of the network that is described
};

using StrategyTraitsRegistry = Registry<StrategyTraits>;

/// What REGISTER_COMPONENT takes.
std::function<std::unique_ptr<StrategyTraits>()> Traits(const StrategyTraits& traits);

/// The method that a table `[parallel]` names; "serial" if it names none.
std::string MethodOf(const Config& parallel);
/// Of that method.
StrategyTraits TraitsOf(const Config& parallel);

}  // namespace antiphon::parallel
