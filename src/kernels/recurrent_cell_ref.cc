#include <algorithm>
#include <cmath>

#include "kernels/recurrent_cell.h"

namespace antiphon {
namespace {

double GateSigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Peephole(ConstMatrixView peepholes, int64_t gate, int64_t cell) {
  return peepholes.empty() ? 0.0 : static_cast<double>(peepholes(gate, cell));
}

void LstmForwardRef(const LstmForward& a) {
  const int64_t n = a.cell.cols();
  for (int64_t s = 0; s < a.cell.rows(); ++s) {
    for (int64_t c = 0; c < n; ++c) {
      const auto old = static_cast<double>(a.old_cell(s, c));
      const auto in = [&](int64_t gate) { return static_cast<double>(a.gates(s, gate * n + c)); };
      const double i = GateSigmoid(in(0) + Peephole(a.peepholes, 0, c) * old);
      const double f = GateSigmoid(in(1) + Peephole(a.peepholes, 1, c) * old);
      const double g = std::tanh(in(2));
      const double cell = f * old + i * g;
      const double o = GateSigmoid(in(3) + Peephole(a.peepholes, 2, c) * cell);
      const double values[] = {i, f, g, o};
      for (int64_t gate = 0; gate < 4; ++gate) a.gates(s, gate * n + c) = static_cast<float>(values[gate]);
      a.cell(s, c) = static_cast<float>(cell);
      a.cell_tanh(s, c) = static_cast<float>(std::tanh(cell));
      a.output(s, c) = static_cast<float>(o * std::tanh(cell));
    }
  }
}

void LstmBackwardRef(const LstmBackward& a) {
  const int64_t n = a.cell.cols();
  for (int64_t s = 0; s < a.cell.rows(); ++s) {
    for (int64_t c = 0; c < n; ++c) {
      const auto gate = [&](int64_t k) { return static_cast<double>(a.gates(s, k * n + c)); };
      const double i = gate(0), f = gate(1), g = gate(2), o = gate(3);
      const auto tanh_c = static_cast<double>(a.cell_tanh(s, c));
      const auto dm = static_cast<double>(a.d_output(s, c));
      const auto old = static_cast<double>(a.old_cell(s, c));
      const double d_o = dm * tanh_c * o * (1 - o);
      const double dc =
          static_cast<double>(a.d_cell(s, c)) + dm * o * (1 - tanh_c * tanh_c) + d_o * Peephole(a.peepholes, 2, c);
      const double d_i = dc * g * i * (1 - i);
      const double d_f = dc * old * f * (1 - f);
      const double d_g = dc * i * (1 - g * g);
      const double values[] = {d_i, d_f, d_g, d_o};
      for (int64_t k = 0; k < 4; ++k) a.gates(s, k * n + c) = static_cast<float>(values[k]);
      double back = dc * f + d_i * Peephole(a.peepholes, 0, c) + d_f * Peephole(a.peepholes, 1, c);
      if (a.clip > 0) back = std::clamp(back, static_cast<double>(-a.clip), static_cast<double>(a.clip));
      a.d_cell(s, c) = static_cast<float>(back);
      if (a.peephole_sums.empty()) continue;
      a.peephole_sums(0, c) += static_cast<float>(d_i * old);
      a.peephole_sums(1, c) += static_cast<float>(d_f * old);
      a.peephole_sums(2, c) += static_cast<float>(d_o * static_cast<double>(a.cell(s, c)));
    }
  }
}

void GruForwardRef(const GruForward& a) {
  const int64_t n = a.output.cols();
  for (int64_t s = 0; s < a.output.rows(); ++s) {
    for (int64_t c = 0; c < n; ++c) {
      const auto in = [&](int64_t gate) { return static_cast<double>(a.gates(s, gate * n + c)); };
      const auto u = [&](int64_t gate) { return static_cast<double>(a.product(s, gate * n + c)); };
      const double r = GateSigmoid(in(0) + u(0));
      const double z = GateSigmoid(in(1) + u(1));
      const double candidate = std::tanh(in(2) + r * u(2));
      const double values[] = {r, z, candidate};
      for (int64_t gate = 0; gate < 3; ++gate) a.gates(s, gate * n + c) = static_cast<float>(values[gate]);
      a.output(s, c) = static_cast<float>((1 - z) * candidate + z * static_cast<double>(a.old_output(s, c)));
    }
  }
}

void GruBackwardRef(const GruBackward& a) {
  const int64_t n = a.d_output.cols();
  for (int64_t s = 0; s < a.d_output.rows(); ++s) {
    for (int64_t c = 0; c < n; ++c) {
      const auto gate = [&](int64_t k) { return static_cast<double>(a.gates(s, k * n + c)); };
      const double r = gate(0), z = gate(1), candidate = gate(2);
      const auto dh = static_cast<double>(a.d_output(s, c));
      const double d_n = dh * (1 - z) * (1 - candidate * candidate);
      const double d_z = dh * (static_cast<double>(a.old_output(s, c)) - candidate) * z * (1 - z);
      const double d_r = d_n * static_cast<double>(a.product(s, 2 * n + c)) * r * (1 - r);
      const double gates[] = {d_r, d_z, d_n}, products[] = {d_r, d_z, d_n * r};
      for (int64_t k = 0; k < 3; ++k) {
        a.gates(s, k * n + c) = static_cast<float>(gates[k]);
        a.product(s, k * n + c) = static_cast<float>(products[k]);
      }
      a.d_old_output(s, c) = static_cast<float>(dh * z);
    }
  }
}

REGISTER_KERNEL(LstmForwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &LstmForwardRef);
REGISTER_KERNEL(LstmBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &LstmBackwardRef);
REGISTER_KERNEL(GruForwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &GruForwardRef);
REGISTER_KERNEL(GruBackwardOp, DeviceKind::kCpu, DataType::kFloat32, "ref", 0, &GruBackwardRef);

}  // namespace
}  // namespace antiphon
