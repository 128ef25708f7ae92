// Correlations of one pitch frame with itself, lags in SIMD lanes.
//
// Threads: free functions. Sums run in one fixed order per lag, whatever the number of lags.
#pragma once

#include <cstdint>
#include <vector>

namespace antiphon {

/// Lags are computed in groups of this many.
inline constexpr int kLagLanes = 16;

/// For lag = first_lag + i, i < num_lags (a multiple of 16): product[i] = Σ_t x[t]·x[t + lag] and energy[i] = Σ_t x[t +
/// lag]² over t < size. x has size + first_lag + num_lags values.
void CorrelateLags(const float* x, int size, int first_lag, int num_lags, float* product, float* energy);

/// A banded matrix in groups of sixteen rows that share their columns: group g covers columns first[g] … first[g] +
/// count[g] − 1, sixteen weights (one per row) for each.
struct GroupedMatrix {
  std::vector<int32_t> first;
  std::vector<int32_t> count;
  std::vector<float> weights;
};
/// out (16 per group) = matrix · in.
void GroupedTimesVector(const GroupedMatrix& matrix, const float* in, float* out);

}  // namespace antiphon
