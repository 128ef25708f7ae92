// Several compressions side by side, from one model.
//
// Threads: one caller. Errors: UsageError for a variant that names what there is not; those of compressing and
// decoding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "compress/method.h"
#include "pipeline/compress_request.h"
#include "pipeline/model_measure.h"
#include "pipeline/stage_host.h"

namespace antiphon::pipeline {

/// How good a model is.
struct VariantMeasures {
  double frame_accuracy = 0;
  std::optional<WordErrors> words;  // if there is a decoding
};

/// What a folder keeps of its variant, so that it is not made again.
struct VariantOutcome {
  std::string model;  // file
  int64_t parameters = 0;
  compress::Changes layers;
  std::optional<VariantMeasures> compressed;  // before retraining; none without a method
  VariantMeasures result;
};

struct VariantReport {
  std::string name;
  double frames_per_second = 0;
  int64_t bytes = 0;
  VariantOutcome outcome;
};

/// Every key of the table `variants` of `config` names one, its value lists settings of `antiphon compress`
/// (method=svd, svd.size=0.3, train.schedule.epochs=8, …), which replace those of `config`, and of `request`, which was
/// read from it, and whose model is the file itself; `from=OTHER` goes on from another one's result, which stands above
/// it. Without a method it is the model as it is, and settings nnet.… are those of decoding (nnet.frame-skip=2). Each
/// has a folder; what is finished is not repeated, except measuring speed. Says a table, and writes variants.json and
/// variants.md. The first report is that of the model as it is.
std::vector<VariantReport> CompareVariants(const CompressRequest& request, const Config& config, const StageHost& host);
/// The text of variants.json, on one line.
std::string ToJson(const std::vector<VariantReport>& variants);

}  // namespace antiphon::pipeline
