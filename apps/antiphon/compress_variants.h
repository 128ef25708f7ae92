// antiphon compress with a table `variants`: several methods side by side, from one model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "command.h"
#include "train/compression.h"

namespace antiphon::app {

struct VariantsRequest {
  std::filesystem::path folder;
  std::filesystem::path model_file;
  int batch = 8;
  /// What all variants are told alike, as text: a variant is run again if it changes.
  std::string common;
  /// Measures frame accuracy; of the model as it is.
  const train::CompressionRun* run = nullptr;
};

/// Every key of the table `variants` names one, its value lists settings of `antiphon compress` (method=svd,
/// svd.size=0.3, train.schedule.epochs=8, …); `from=OTHER` goes on from another one's result, which stands above it.
/// Without a method it is the model as it is, and settings nnet.… are those of decoding (nnet.frame-skip=2). Each has a
/// folder; what is finished is not repeated, except measuring speed. Prints a table, writes variants.json and
/// variants.md. UsageError for a variant that names what there is not.
void RunVariants(const VariantsRequest& request, CommandContext& context);

}  // namespace antiphon::app
