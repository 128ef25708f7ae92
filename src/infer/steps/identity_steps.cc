// Layers that do nothing when scoring.
#include "infer/plan_step.h"

namespace antiphon::infer {
namespace {

const auto kLeaveOut = [](const StepArgs&) { return std::unique_ptr<PlanStep>(); };

REGISTER_COMPONENT(StepRegistry, "dropout", kLeaveOut);
REGISTER_COMPONENT(StepRegistry, "spec-mask", kLeaveOut);
REGISTER_COMPONENT(StepRegistry, "gradient-reversal", kLeaveOut);
REGISTER_COMPONENT(StepRegistry, "side-task", kLeaveOut);

}  // namespace
}  // namespace antiphon::infer
