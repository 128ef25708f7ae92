#include "api/request_check.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "math/safetensors.h"
#include "pipeline/bundle.h"
#include "train/component_options.h"

namespace antiphon {
namespace {

void CheckComponent(const std::string& kind, const train::ComponentFamily& family, const std::string& name,
                    const Config& options) {
  const bool known = std::find(family.names.begin(), family.names.end(), name) != family.names.end();
  if (!known) throw UsageError(UnknownNameMessage(kind, name, family.names));
  train::ReadComponent(family, name, options);
}

}  // namespace

void CheckMethod(const std::string& family, const std::string& method, const Config& options) {
  CheckComponent("method of " + family, train::FamilyNamed(family), method, options);
}

void CheckOptimizer(const Config& optimizer) {
  CheckComponent("optimizer", train::FamilyNamed("optimizer"), optimizer.RequiredText("type"), optimizer);
}

void CheckModelFile(const std::string& model) { const SafetensorsReader reader(pipeline::PartsAt(model).model); }

}  // namespace antiphon
