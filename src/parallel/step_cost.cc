#include "parallel/step_cost.h"

namespace antiphon::parallel {
namespace {

// Vectors (biases, scales) are no products.
double ProductSize(const nn::Parameter& p) {
  return p.whole.rows > 1 && p.whole.cols > 1 ? static_cast<double>(p.value.size()) : 0.0;
}

}  // namespace

StepCost::StepCost(const nn::Network& network) {
  bool passes_down = false;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    // Layer hands out its parameters for writing only; nothing is written here.
    auto& layer = const_cast<nn::Layer&>(network.layer(i));
    double weights = 0;
    double learning = 0;
    bool learns = false;
    for (const nn::Parameter* p : layer.parameters()) {
      weights += ProductSize(*p);
      if (p->learning_rate_factor != 0) {
        learning += ProductSize(*p);
        learns = true;
      }
    }
    for (const nn::Parameter* p : layer.buffers()) weights += ProductSize(*p);
    layers_.push_back({2 * weights, 2 * learning + (passes_down ? 2 * weights : 0)});
    forward_ += 2 * weights;
    if (lowest_forward_ == 0) lowest_forward_ = 2 * weights;
    passes_down = passes_down || learns;
  }
}

double StepCost::total_flops() const {
  double sum = 0;
  for (const Flops& f : layers_) sum += f.forward + f.backward;
  return sum;
}

double StepCost::curvature_flops() const { return total_flops() + 2 * forward_ - lowest_forward_; }

}  // namespace antiphon::parallel
