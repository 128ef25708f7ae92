#include <cmath>

#include "kernels/linear_combinations.h"

namespace antiphon {
namespace {

void LinearCombinationsRef(const LinearCombinationsArgs& args) {
  float in[LinearCombinationsArgs::kMostInputs];
  for (int64_t n = 0; n < args.size; ++n) {
    for (int j = 0; j < args.inputs; ++j) in[j] = args.in[j][n];
    for (int i = 0; i < args.outputs; ++i) {
      if (args.out[i] == nullptr) continue;
      float sum = 0;
      for (int j = 0; j < args.inputs; ++j) sum = std::fma(args.coefficients[i * args.inputs + j], in[j], sum);
      args.out[i][n] = sum;
    }
  }
}

REGISTER_KERNEL(LinearCombinationsOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &LinearCombinationsRef);

}  // namespace
}  // namespace antiphon
