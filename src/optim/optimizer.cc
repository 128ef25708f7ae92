#include "optim/optimizer.h"

#include "base/error.h"

namespace antiphon::optim {

void Optimizer::TakeAll(nn::Network& network, std::span<const float> gradient) {
  CHECK_EQ(gradient.size(), network.num_values());
  const auto parameters = network.parameters();
  for (size_t i = parameters.size(); i-- > 0;) {
    nn::Parameter& p = *parameters[i];
    if (p.learning_rate_factor == 0) continue;
    TakeDense(p, ConstMatrixView(gradient.data() + p.offset, p.value.rows(), p.value.cols()));
  }
}

std::unique_ptr<Optimizer> MakeOptimizer(const Config& config, const SteppedValues& values) {
  return OptimizerRegistry::Get().Create(config.Text("type").value_or("sgd"), config, values);
}

}  // namespace antiphon::optim
