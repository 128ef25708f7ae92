// ADMM (plan/periodic.cc). How many passes it needs is not known.
#include "parallel/periodic_cost.h"

namespace antiphon::parallel {
namespace {

REGISTER_COMPONENT(plan::CostMethodRegistry, "admm", [] { return std::make_unique<PeriodicCost>(5); });

}  // namespace
}  // namespace antiphon::parallel
