#include "nn/layers/recurrent_tangents.h"

#include "kernels/parallel.h"

namespace antiphon::nn {
namespace {

constexpr int64_t kWorthThreads = 1 << 12;  // cells

float SigmoidSlope(float y) { return y * (1 - y); }
float TanhSlope(float y) { return 1 - y * y; }

}  // namespace

void LstmCellTangent(const LstmTangent& a) {
  const int64_t n = a.d_cell.cols();
  const bool peeps = !a.peepholes.empty();
  ParallelItems(a.d_cell.rows(), a.d_cell.size(), [&](int64_t s) {
    for (int64_t c = 0; c < n; ++c) {
      const float i = a.gates(s, c), f = a.gates(s, n + c), g = a.gates(s, 2 * n + c), o = a.gates(s, 3 * n + c);
      const float old = a.old_cell(s, c), d_old = a.d_cell(s, c), tanh_c = a.cell_tanh(s, c);
      const auto peephole = [&](int gate, float cell, float d_cell) {
        return peeps ? a.peepholes(gate, c) * d_cell + a.d_peepholes(gate, c) * cell : 0.0f;
      };
      const float d_i = SigmoidSlope(i) * (a.d_gates(s, c) + peephole(0, old, d_old));
      const float d_f = SigmoidSlope(f) * (a.d_gates(s, n + c) + peephole(1, old, d_old));
      const float d_g = TanhSlope(g) * a.d_gates(s, 2 * n + c);
      const float d_cell = d_f * old + f * d_old + d_i * g + i * d_g;
      const float d_o = SigmoidSlope(o) * (a.d_gates(s, 3 * n + c) + peephole(2, a.cell(s, c), d_cell));
      a.d_cell(s, c) = d_cell;
      a.d_output(s, c) = d_o * tanh_c + o * TanhSlope(tanh_c) * d_cell;
    }
  });
}

void GruCellTangent(const GruTangent& a) {
  const int64_t n = a.d_output.cols();
  ParallelItems(a.d_output.rows(), a.d_output.size(), [&](int64_t s) {
    for (int64_t c = 0; c < n; ++c) {
      const float r = a.gates(s, c), z = a.gates(s, n + c), h = a.gates(s, 2 * n + c);
      const float d_r = SigmoidSlope(r) * (a.d_gates(s, c) + a.d_product(s, c));
      const float d_z = SigmoidSlope(z) * (a.d_gates(s, n + c) + a.d_product(s, n + c));
      const float d_inner = d_r * a.product(s, 2 * n + c) + r * a.d_product(s, 2 * n + c);
      const float d_h = TanhSlope(h) * (a.d_gates(s, 2 * n + c) + d_inner);
      a.d_output(s, c) = (1 - z) * d_h + d_z * (a.old_output(s, c) - h) + z * a.d_old_output(s, c);
    }
  });
}

}  // namespace antiphon::nn
