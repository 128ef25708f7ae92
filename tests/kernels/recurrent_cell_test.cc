#include "kernels/recurrent_cell.h"

#include "variants.h"

namespace antiphon {
namespace {

using testing::ExpectClose;
using testing::ForVariants;
using testing::OddSizes;
using testing::Ragged;
using testing::Size;

// The same memory for the variant and for the reference, starting from equal values.
struct Twice {
  Twice(Size size, uint64_t seed) : a(size, seed), b(size, seed) {}
  void Compare(const std::string& what) const { ExpectClose(a.view, b.view, 1e-5, what); }
  Ragged a, b;
};

TEST(LstmCells, AgreeWithTheReference) {
  for (const Size& size : OddSizes()) {
    if (size.rows == 0 || size.cols == 0) continue;
    for (const bool peepholes : {true, false}) {
      const Ragged w({peepholes ? 3 : 0, size.cols}, 1), old(size, 2), d_output(size, 3);
      ForVariants<LstmForwardOp>([&](const std::string& name, auto forward, auto forward_ref) {
        Twice gates({size.rows, 4 * size.cols}, 4), cell(size, 5), tanh_c(size, 6), out(size, 7);
        forward({gates.a.view, w.view, old.view, cell.a.view, tanh_c.a.view, out.a.view});
        forward_ref({gates.b.view, w.view, old.view, cell.b.view, tanh_c.b.view, out.b.view});
        for (const Twice* t : {&gates, &cell, &tanh_c, &out}) t->Compare(name);
        ForVariants<LstmBackwardOp>([&](const std::string&, auto backward, auto backward_ref) {
          Twice d_cell(size, 8), sums({peepholes ? 3 : 0, size.cols}, 9);
          backward({gates.a.view, w.view, old.view, cell.a.view, tanh_c.a.view, d_output.view, d_cell.a.view,
                    sums.a.view, 0.5f});
          backward_ref({gates.b.view, w.view, old.view, cell.b.view, tanh_c.b.view, d_output.view, d_cell.b.view,
                        sums.b.view, 0.5f});
          for (const Twice* t : {&gates, &d_cell, &sums}) t->Compare(name + " backward");
          EXPECT_EQ(gates.a.HashOutside(), gates.b.HashOutside());
        });
      });
    }
  }
}

TEST(GruCells, AgreeWithTheReference) {
  for (const Size& size : OddSizes()) {
    if (size.rows == 0 || size.cols == 0) continue;
    const Ragged old(size, 2), d_output(size, 3);
    ForVariants<GruForwardOp>([&](const std::string& name, auto forward, auto forward_ref) {
      Twice gates({size.rows, 3 * size.cols}, 4), product({size.rows, 3 * size.cols}, 5), out(size, 6);
      forward({gates.a.view, product.a.view, old.view, out.a.view});
      forward_ref({gates.b.view, product.b.view, old.view, out.b.view});
      for (const Twice* t : {&gates, &out}) t->Compare(name);
      ForVariants<GruBackwardOp>([&](const std::string&, auto backward, auto backward_ref) {
        Twice back(size, 7);
        backward({gates.a.view, product.a.view, old.view, d_output.view, back.a.view});
        backward_ref({gates.b.view, product.b.view, old.view, d_output.view, back.b.view});
        for (const Twice* t : {&gates, &product, &back}) t->Compare(name + " backward");
      });
    });
  }
}

}  // namespace
}  // namespace antiphon
