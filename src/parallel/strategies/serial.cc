// One worker trains alone: the reference that every other strategy is compared with.
//
// Exchanged: nothing. Determinism: the same bits in every run with the same seed and data, whatever the number of
// threads.
#include "base/options.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {
namespace {

struct SerialOptions {
  template <class V>
  void Visit(V&) {}
};

class Serial : public Strategy {
 public:
  Serial(const Config& config, const Replica& replica) : Strategy(replica) {
    ReadOptions<SerialOptions>(config, kCommonStrategyKeys);
    if (replica.comm->world_size() != 1) {
      Throw<UsageError>("parallel.method 'serial' is for one worker, but there are {}: choose another method",
                        replica.comm->world_size());
    }
  }
};

REGISTER_COMPONENT(StrategyRegistry, "serial", [](const Config& config, const Replica& replica) {
  return std::make_unique<Serial>(config, replica);
});
REGISTER_COMPONENT(StrategyTraitsRegistry, "serial", Traits({.one_worker = true}));

}  // namespace
}  // namespace antiphon::parallel
