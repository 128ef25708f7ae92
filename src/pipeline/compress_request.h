// What a compression is asked for: the options of antiphon compress, and its tables.
//
// Threads: plain data and functions. Errors: UsageError for options of another method than the one.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "pipeline/compress_plan.h"
#include "train/compression.h"

namespace antiphon::pipeline {

struct CompressRequest {
  std::string model;
  std::string method;
  std::string out;
  std::string store;
  std::string held_out_store;
  PlanOptionsOfCompress plan;
  train::CompressionOptions compression;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file to compress");
    v("method", method,
      "how: the table of that name holds its options; 'list' names all; empty: a search under a budget");
    v("out", out, "folder: model.safetensors, what it was before retraining, compression.json");
    v("store", store, "frame store for statistics, retraining and measuring; without one only what the method does");
    v("held-out-store", held_out_store,
      "frame store to measure on; empty: what the model's training held out of --store");
    plan.Visit(v);
    compression.Visit(v);
  }

  // Tables.
  Config method_options;  // of `method`
  Config optimizer;       // as antiphon train takes it
};

/// Keys of the tables that TakeTables and whoever compares variants read.
std::vector<std::string> CompressTables();
/// What a configuration says beside the options; a person's choice of what is held out holds against the model's.
void TakeTables(const Config& config, CompressRequest& request);

/// The store in a folder or at an address; null without one.
std::shared_ptr<const data::FrameStore> OpenStore(const std::string& folder, const data::ShardCacheOptions& cache = {});
/// Another text for a store that holds something else, wherever it lies; "" for null.
std::string StoreKey(const std::shared_ptr<const data::FrameStore>& store);

}  // namespace antiphon::pipeline
