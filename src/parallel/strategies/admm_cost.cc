// ADMM (plan/periodic.cc).
#include "parallel/elastic_cost.h"

namespace antiphon::parallel {
namespace {

REGISTER_COMPONENT(plan::CostMethodRegistry, "admm",
                   [] { return std::make_unique<ElasticCost>(5, "admm", "the consensus by ADMM"); });

}  // namespace
}  // namespace antiphon::parallel
