#include "kernels/linear_combinations.h"
#include "kernels/x86_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_combinations_cpu.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/check.h"
#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

// All inputs' vectors stay in registers while the outputs are made one after the other.
template <int kInputs>
void Combine(const LinearCombinationsArgs& args) {
  const hn::ScalableTag<float> d;
  const float* in[kInputs];
  ANTIPHON_UNROLL for (int j = 0; j < kInputs; ++j) in[j] = args.in[j];
  ForVectors(d, args.size, [&](auto load, auto store) HWY_ATTR {
    hn::Vec<decltype(d)> x[kInputs];
    ANTIPHON_UNROLL for (int j = 0; j < kInputs; ++j) x[j] = load(in[j]);
    const float* c = args.coefficients;
    for (int i = 0; i < args.outputs; ++i, c += kInputs) {
      if (args.out[i] == nullptr) continue;
      auto sum = hn::Mul(hn::Set(d, c[0]), x[0]);
      ANTIPHON_UNROLL for (int j = 1; j < kInputs; ++j) sum = hn::MulAdd(hn::Set(d, c[j]), x[j], sum);
      store(sum, args.out[i]);
    }
  });
}

void CombineAny(const LinearCombinationsArgs& args) {
  using Function = void (*)(const LinearCombinationsArgs&);
  static constexpr Function kByInputs[LinearCombinationsArgs::kMostInputs] = {&Combine<1>, &Combine<2>, &Combine<3>,
                                                                              &Combine<4>, &Combine<5>, &Combine<6>,
                                                                              &Combine<7>, &Combine<8>, &Combine<9>};
  kByInputs[args.inputs - 1](args);
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(CombineAny);

void LinearCombinationsCpu(const LinearCombinationsArgs& args) {
  CHECK(args.inputs >= 1 && args.inputs <= LinearCombinationsArgs::kMostInputs) << args.inputs;
  HWY_DYNAMIC_DISPATCH(CombineAny)(args);
}

REGISTER_KERNEL(LinearCombinationsOp, DeviceKind::kCpu, DataType::kFloat32, "highway", 1, &LinearCombinationsCpu);

}  // namespace
}  // namespace antiphon
#endif
