// Inner loops of Gaussian mixtures, compiled for each instruction set and chosen at run time.
//
// Layouts: block [2·dim, 16] as in FrameBlocks; coefficients [count, 2·dim]; out [count, 16].
#pragma once

namespace antiphon::hmm {

/// out[g][lane] = constants[g] + Σ_k coefficients[g][k] · block[k][lane].
void GaussianBlock(const float* coefficients, const float* constants, int count, int two_dim, const float* block,
                   float* out);

/// out[lane] = log Σ_g exp(values[g][lane]).
void LogSumBlock(const float* values, int count, float* out);

/// values[g][lane] becomes exp(values[g][lane] − out[lane]), with out as LogSumBlock gives it.
void PosteriorBlock(float* values, int count, float* out);

}  // namespace antiphon::hmm
