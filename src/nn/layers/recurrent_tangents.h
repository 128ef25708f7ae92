// One time step of what changes in an LSTM's or a GRU's cells along a direction: everything but the matrix products.
// The formulas are those of kernels/recurrent_cell.h, differentiated; d_… are changes.
//
// Shapes: as there. `gates`, `product` and cells are what a forward pass left; d_gates (and d_product) hold the changes
// of the gates' inputs, all but what peepholes add.
// Second-order training alone comes here, a few hundred times per step of a run: plain loops do.
#pragma once

#include "math/matrix.h"

namespace antiphon::nn {

struct LstmTangent {
  ConstMatrixView gates;
  ConstMatrixView peepholes;    // or empty, and then
  ConstMatrixView d_peepholes;  // likewise
  ConstMatrixView old_cell;
  ConstMatrixView cell;
  ConstMatrixView cell_tanh;
  ConstMatrixView d_gates;
  MatrixView d_cell;  // given as that of the step before
  MatrixView d_output;
};
void LstmCellTangent(const LstmTangent& step);

struct GruTangent {
  ConstMatrixView gates;
  ConstMatrixView product;
  ConstMatrixView old_output;
  ConstMatrixView d_gates;
  ConstMatrixView d_product;
  ConstMatrixView d_old_output;
  MatrixView d_output;
};
void GruCellTangent(const GruTangent& step);

}  // namespace antiphon::nn
