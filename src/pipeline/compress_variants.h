// Several compressions side by side, from one model.
#pragma once

#include <string>

#include "base/config.h"
#include "pipeline/compress_request.h"
#include "pipeline/stage_host.h"

namespace antiphon::pipeline {

/// Every key of the table `variants` of `config` names one, its value lists settings of `antiphon compress`
/// (method=svd, svd.size=0.3, train.schedule.epochs=8, …), which replace those of `config`, and of `request`, which was
/// read from it; `from=OTHER` goes on from another one's result, which stands above it. Without a method it is the
/// model as it is, and settings nnet.… are those of decoding (nnet.frame-skip=2). Each has a folder; what is finished
/// is not repeated, except measuring speed. Says a table, writes variants.json and variants.md, and returns the JSON.
/// UsageError for a variant that names what there is not.
std::string CompareVariants(const CompressRequest& request, const Config& config, const StageHost& host);

}  // namespace antiphon::pipeline
