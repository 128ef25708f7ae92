// A model compressed on real data: frames for the methods, retraining, and how good and large the model was at each
// stage.
//
//   CompressionRun run(options, model, store, held_out_store);
//   const CompressionResult result = run.Compress("svd", Config::Parse("energy = 0.8", "svd"), "exp/svd", optimizer);
//
// Folder: compressed.safetensors (before retraining), retrain/ (a run folder of train/trainer.h), model.safetensors
// (the result), compression.json. Threads: one caller; arithmetic in its compute threads. Errors: those of methods and
// training.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "compress/method.h"
#include "train/evaluate.h"
#include "train/trainer.h"

namespace antiphon::train {

/// Frames of a store, spliced as a model wants them, in the order of the store.
class StoreFrames : public compress::InputFrames {
 public:
  explicit StoreFrames(EvaluationData data);
  ~StoreFrames() override;
  void Rewind() override;
  nn::NetworkInput Next() override;

 private:
  std::shared_ptr<const data::MinibatchPool> pool_;
  std::unique_ptr<data::MinibatchStream> stream_;
};

struct CompressionOptions {
  int64_t frames = 50000;
  bool retrain = true;
  bool distill = true;
  TrainOptions train = RetrainingDefaults();
  bool own_held_out = false;  // for callers: train.held-out was chosen by a person, and holds against the model's
  template <class V>
  void Visit(V& v) {
    v("frames", frames, Range{1, 1e12}, "training frames that methods look at, for statistics and ranges");
    v("retrain", retrain, "train on after the method");
    v("distill", distill,
      "the model as it was teaches the smaller one: train.teacher says with what weight and temperature");
    v.Group("train", train);
  }
  /// A few epochs, at half the rate of training from the start.
  static TrainOptions RetrainingDefaults();
};

struct ModelMeasures {
  int64_t parameters = 0;
  int64_t bytes = 0;  // of weights and everything else in the network, as in the file
  double loss = 0;    // nats per held-out frame
  double frame_accuracy = 0;
};

struct CompressionResult {
  compress::Changes changes;
  ModelMeasures before;
  ModelMeasures compressed;
  ModelMeasures retrained;  // as `compressed` without retraining
  std::filesystem::path model;
};

class CompressionRun {
 public:
  /// `held_out_store` may be null: then the part of `store` counts that the model's own training held out, and
  /// retraining, with the seed of that training, holds it out too; a model that does not say, or options of one's own,
  /// hold out as training with this seed would. Without a store there are no frames, no retraining, and accuracies are
  /// 0.
  CompressionRun(CompressionOptions options, std::shared_ptr<const nn::Model> model,
                 std::shared_ptr<const data::FrameStore> store, std::shared_ptr<const data::FrameStore> held_out_store,
                 uint64_t seed);

  /// `keys` are the method's, `optimizer` a table as `antiphon train` takes it.
  CompressionResult Compress(const std::string& method, const Config& keys, const std::filesystem::path& folder,
                             const Config& optimizer) const;
  /// With frame_skip K, every K-th frame's scores count for the K − 1 frames after it too.
  ModelMeasures Measure(const nn::Model& model, int frame_skip = 1) const;

 private:
  void TakeHeldOut();
  EvaluationData HeldOut() const;
  void Retrain(std::shared_ptr<const nn::Model> model, const std::filesystem::path& folder,
               const Config& optimizer) const;

  CompressionOptions options_;
  std::shared_ptr<const nn::Model> model_;
  std::shared_ptr<const data::FrameStore> store_;
  std::shared_ptr<const data::FrameStore> held_out_store_;
  uint64_t seed_;
  uint64_t held_out_seed_;  // of the training that is held to, and of retraining
  DataSplit split_;
};

/// As JSON: what compression.json holds.
std::string ToJson(const CompressionResult& result);

}  // namespace antiphon::train
