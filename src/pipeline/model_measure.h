// What a model costs and how well it recognises, to weigh one model against another.
//
// Threads: one caller. Errors: those of a decoding and of the runtime.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/config.h"
#include "nn/model.h"
#include "pipeline/decode_request.h"
#include "pipeline/stage_host.h"

namespace antiphon::pipeline {

/// Of scoring on one core, as one stream would have it; 8-bit arithmetic for weights of 8 bits or fewer.
struct ScoringCost {
  double frames_per_second = 0;  // frames of speech, also where one pass scores several
  int64_t weight_bytes = 0;      // as the runtime holds them
  int64_t stream_bytes = 0;      // of each stream: what its layers remember, and a window of its frames
};

/// `precision` as --nnet.precision has it; "": int8 where the model is made for it, else fp32.
ScoringCost MeasureScoring(const nn::Model& model, int batch, const std::string& precision, int threads_afterwards);
std::string ScoringPrecision(const nn::Model& model);

struct WordErrors {
  double rate = 0;
  int64_t errors = 0;
  int64_t words = 0;
};

/// A table of a person's with options of antiphon decode, but model and out. UsageError where data or graph is missing.
DecodeRequest ReadDecodeTable(const Config& table);

/// Recognises with `decode` (a table as ReadDecodeTable takes it), without lattices, in the precision that the model is
/// made for unless `decode` names one. UsageError if the data have no transcripts.
WordErrors MeasureWordErrors(const Config& decode, const std::filesystem::path& model_file, const nn::Model& model,
                             const std::filesystem::path& out, const StageHost& host);

}  // namespace antiphon::pipeline
