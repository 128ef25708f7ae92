#include "kernels/linear_combinations.h"

#include <algorithm>

#include "variants.h"

namespace antiphon {
namespace {

TEST(LinearCombinations, AgreeWithTheReference) {
  testing::ForVariants<LinearCombinationsOp>([](const std::string& name, auto function, auto reference) {
    for (const int64_t size : {0, 1, 7, 16, 67, 1024}) {
      for (int inputs = 1; inputs <= LinearCombinationsArgs::kMostInputs; ++inputs) {
        constexpr int kOutputs = 5, kLeftOut = 3;
        const testing::Ragged in({inputs, size}, 1), c({kOutputs, inputs}, 2, 1, true);
        c.view(0, 0) = 0;
        testing::Ragged out({kOutputs, size}, 3), expected({kOutputs, size}, 3);
        if (size > 0) in.view(inputs - 1, size - 1) = testing::kNaN;
        std::vector<const float*> from;
        std::vector<float*> to, to_expected;
        for (int j = 0; j < inputs; ++j) from.push_back(in.view.Row(j).data());
        for (int i = 0; i < kOutputs; ++i) {
          to.push_back(i == kLeftOut ? nullptr : out.view.Row(i).data());
          to_expected.push_back(i == kLeftOut ? nullptr : expected.view.Row(i).data());
        }
        LinearCombinationsArgs args{.inputs = inputs,
                                    .outputs = kOutputs,
                                    .coefficients = c.view.data(),
                                    .in = from.data(),
                                    .out = to.data(),
                                    .size = size};
        const uint64_t outside = out.HashOutside();
        function(args);
        args.out = to_expected.data();
        reference(args);
        testing::ExpectClose(out.view, expected.view, 1e-6, name);
        EXPECT_EQ(out.HashOutside(), outside) << name;
        // Into the inputs' own memory.
        const int own = std::min(inputs, kLeftOut);
        std::vector<float*> places;
        for (int i = 0; i < own; ++i) places.push_back(in.view.Row(i).data());
        args.outputs = own;
        args.out = places.data();
        function(args);
        testing::ExpectClose(in.view.Rows(0, own), expected.view.Rows(0, own), 1e-6, name + " in place");
      }
    }
  });
}

}  // namespace
}  // namespace antiphon
