// A search for compression methods under a budget, by retraining and measuring on this machine.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "compress/planner.h"
#include "pipeline/stage_host.h"
#include "train/compression.h"

namespace antiphon::pipeline {

struct PlanOptionsOfCompress {
  double rtf = 0;
  double size_mb = 0;
  double stream_mb = 0;
  std::string max_wer_loss = "1%";
  std::string slack = "0%";
  int batch = 8;
  std::vector<std::string> methods = {"multiframe", "prune-nodes", "svd", "prune", "quantize"};
  template <class V>
  void Visit(V& v) {
    v("rtf", rtf, Range{0, 1000}, "budget: seconds of scoring per second of speech, one core; 0: as fast as can be");
    v("size-mb", size_mb, Range{0, 1e6}, "budget: megabytes of weights as the runtime holds them; 0: none");
    v("stream-mb", stream_mb, Range{0, 1e6}, "budget: megabytes of memory per stream beside the weights; 0: none");
    v("max-wer-loss", max_wer_loss, "by how much of itself the error may grow: '1%'");
    v("slack", slack, "by how much it may grow in any case, in points: '0.1%'; for small test sets");
    v("batch", batch, Range{1, 4096}, "frames scored together where speed is measured");
    v("try", methods, "methods that the search tries; there are circulant and binarize, too, which seldom help");
  }
};

struct PlanRequest {
  PlanOptionsOfCompress plan;
  train::CompressionOptions compression;
  std::filesystem::path folder;
  std::shared_ptr<const nn::Model> model;
  std::string model_file;
  std::shared_ptr<const data::FrameStore> store;
  std::shared_ptr<const data::FrameStore> held_out_store;
  Config optimizer;
  /// Options of `antiphon decode` but model and out; empty: the error is that of frames.
  Config decode;
};

/// Says what it tries, writes plan.json and report.html into the folder, copies the chosen model there. Tries that the
/// folder holds already, from a run that was broken off, are not made again.
compress::PlanResult SearchCompression(const PlanRequest& request, const StageHost& host);
/// The text of plan.json.
std::string ToJson(const compress::PlanResult& result);

}  // namespace antiphon::pipeline
