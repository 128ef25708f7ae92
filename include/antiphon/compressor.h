// Makes a model smaller and faster by one method: what `antiphon compress --method` does, by the same code.
//
//   antiphon::CompressorSettings settings;
//   settings.model = "exp/net/model.safetensors", settings.frame_store = "exp/store", settings.out = "exp/svd";
//   settings.method = "svd", settings.config = "svd.energy = 0.8\ntrain.schedule.epochs = 2";
//   const antiphon::CompressionOutcome outcome = antiphon::Compressor(settings).Run();
//
// Units: losses in nats per frame, accuracies as shares of frames, 0 … 1; sizes in bytes.
// Ownership: values; copies are apart, and moving one copies it.
// Threads: a call uses CompressorSettings::threads of its own; one Run at a time per object and per folder (out).
// Errors: antiphon::Error (antiphon/error.h): kUsage for settings that cannot be, kInput for a model or a store that is
// damaged or does not fit, kIo, kDivergence, kCancelled.
#pragma once

#include <cstdint>
#include <string>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct CompressorSettings {
  std::string model = {};
  std::string method = {};          // "svd", "prune", "quantize" … (`antiphon compress --method list`)
  std::string out = {};             // folder: model.safetensors, what it was before retraining, compression.json
  std::string frame_store = {};     // for statistics, retraining and measuring; "": only what the method does without
  std::string held_out_store = {};  // to measure on; "": what the model's training held out of frame_store
  std::string config = {};          // TOML: options of `antiphon compress`, the method's own table and `optimizer`
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
  CancelToken cancel = {};
};

struct CompressionStage {
  int64_t parameters = 0;
  int64_t bytes = 0;  // of the network, as in the file
  double held_out_loss = 0.0;
  double held_out_accuracy = 0.0;
};

struct CompressionOutcome {
  std::string model_file;
  CompressionStage before;
  CompressionStage compressed;
  CompressionStage retrained;  // as `compressed` without retraining
};

class ANTIPHON_API Compressor {
 public:
  /// Refuses a method and options that there are not, and a model file that is not whole; Run refuses the rest.
  explicit Compressor(CompressorSettings settings);
  Compressor(const Compressor&) = default;
  Compressor& operator=(const Compressor&) = default;
  ~Compressor() = default;

  /// All of it, from reading to the measures.
  CompressionOutcome Run();

 private:
  CompressorSettings settings_;
};

}  // namespace antiphon
