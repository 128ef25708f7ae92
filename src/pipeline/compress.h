// A compression by one method: applied, retrained and measured at each stage (train/compression.h).
//
// Threads: one caller. Errors: UsageError, and those of methods and training.
#pragma once

#include <string>
#include <vector>

#include "pipeline/compress_request.h"
#include "pipeline/stage_host.h"
#include "train/compression.h"

namespace antiphon::pipeline {

/// By the request's method.
train::CompressionResult Compress(const CompressRequest& request, const StageHost& host);
/// What was changed, and a table of how good and large the model was at each stage.
std::vector<std::string> Sentences(const CompressRequest& request, const train::CompressionResult& result);

}  // namespace antiphon::pipeline
