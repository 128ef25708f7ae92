// What a model costs and how well it recognises, for commands that weigh one model against another.
//
// Threads: one caller. Errors: those of `antiphon decode` and of the runtime.
#pragma once

#include <cstdint>
#include <filesystem>

#include "command.h"
#include "nn/model.h"

namespace antiphon::app {

/// Of scoring on one core, as one stream would have it; 8-bit arithmetic for weights of 8 bits or fewer.
struct ScoringCost {
  double frames_per_second = 0;  // frames of speech, also where one pass scores several
  int64_t weight_bytes = 0;      // as the runtime holds them
  int64_t stream_bytes = 0;      // of memory for each stream beside the weights
};

/// `precision` as --nnet.precision has it; "": int8 where the model is made for it, else fp32.
ScoringCost MeasureScoring(const nn::Model& model, int batch, const std::string& precision, int threads_afterwards);
std::string ScoringPrecision(const nn::Model& model);

struct WordErrors {
  double rate = 0;
  int64_t errors = 0;
  int64_t words = 0;
};

/// Recognises with `decode` (options of antiphon decode but model, out and threads), without lattices, in the precision
/// that the model is made for unless `decode` names one. UsageError if the data have no transcripts.
WordErrors MeasureWordErrors(const Config& decode, const std::filesystem::path& model_file, const nn::Model& model,
                             const std::filesystem::path& out, int threads);

}  // namespace antiphon::app
