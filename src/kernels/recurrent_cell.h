// One time step of an LSTM's or a GRU's cells, all streams at once, forward and backward: everything but the matrix
// products.
//
// LSTM, with peepholes w (zero if there are none):
//   i = σ(I + w_i∘c₋)  f = σ(F + w_f∘c₋)  g = tanh(G)  c = f∘c₋ + i∘g  o = σ(O + w_o∘c)  m = o∘tanh(c)
// GRU, with h₋'s product U = [U_r U_z U_n] (its own bias in U_n):
//   r = σ(R + U_r)  z = σ(Z + U_z)  n = tanh(N + r∘U_n)  h = (1 − z)∘n + z∘h₋
// Shapes: S streams, n cells; gates [S, 4n] hold I F G O side by side (GRU: [S, 3n], R Z N) and become i f g o; the
// rest are [S, n]; peepholes [3, n]: w_i w_f w_o, or empty. Every row may have any stride.
// Threads: the caller's compute threads; results do not depend on their number.
// Source: Gers, Schmidhuber 2000 (peepholes); Sak, Senior, Beaufays, Interspeech 2014; Cho et al. 2014, in the form of
// cuDNN.
#pragma once

#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon {

struct LstmForward {
  MatrixView gates;
  ConstMatrixView peepholes;
  ConstMatrixView old_cell;
  MatrixView cell;
  MatrixView cell_tanh;
  MatrixView output;
};
/// d… are derivatives: of the output (given), of the cell (given as what comes back from the next step, and becomes
/// what goes to the one before), of the gates' inputs (written over the gates). `peephole_sums` [3, n] are added to.
/// What goes on to the step before is kept within ±clip (0: no limit).
struct LstmBackward {
  MatrixView gates;
  ConstMatrixView peepholes;
  ConstMatrixView old_cell;
  ConstMatrixView cell;
  ConstMatrixView cell_tanh;
  ConstMatrixView d_output;
  MatrixView d_cell;
  MatrixView peephole_sums;
  float clip = 0;
};

struct GruForward {
  MatrixView gates;
  MatrixView product;  // [S, 3n]
  ConstMatrixView old_output;
  MatrixView output;
};
/// `gates` become the derivatives of R Z N, `product` those of U; `d_old_output` is what passes by the products.
struct GruBackward {
  MatrixView gates;
  MatrixView product;
  ConstMatrixView old_output;
  ConstMatrixView d_output;
  MatrixView d_old_output;
};

struct LstmForwardOp {
  static constexpr const char* kName = "lstm_forward";
  using Function = void (*)(const LstmForward&);
};
struct LstmBackwardOp {
  static constexpr const char* kName = "lstm_backward";
  using Function = void (*)(const LstmBackward&);
};
struct GruForwardOp {
  static constexpr const char* kName = "gru_forward";
  using Function = void (*)(const GruForward&);
};
struct GruBackwardOp {
  static constexpr const char* kName = "gru_backward";
  using Function = void (*)(const GruBackward&);
};

}  // namespace antiphon
