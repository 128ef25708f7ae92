// Acoustic scores of an utterance from a network: log p(s|x) − prior_scale · log p(s), blocks of frames at a time.
//
// NnetModel holds what all utterances share; an NnetScorer is one utterance. Frames come as the front end and
// normalisation leave them, one per row; context is spliced here, edge frames repeated. Classes that training never saw
// (relative count below 1e-10) are disabled: their score is kDisabledScore.
//
// Shapes: frames [N, feature_dim]; N may be 0. Units: nats.
// Threads: one NnetModel for many threads; an NnetScorer belongs to one. Results do not depend on other utterances.
// Errors: ShapeError naming both dimensions; InputError for a model without priors that needs them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "math/matrix.h"
#include "nn/model.h"
#include "nn/workspace.h"

namespace antiphon::infer {

inline constexpr float kDisabledScore = -1e10F;

struct NnetScorerOptions {
  double prior_scale = 1.0;
  int block_frames = 128;
  std::string precision = "fp32";

  template <class V>
  void Visit(V& v) {
    v("prior-scale", prior_scale, Range{0.0, 10.0}, "weight of the class priors that are taken out");
    v("block-frames", block_frames, Range{1, 1 << 16}, "frames that go through the network together");
    v("precision", precision, OneOf{{"fp32", "bf16"}}, "arithmetic of the matrix products");
  }
};

class NnetModel {
 public:
  NnetModel(nn::Model model, const NnetScorerOptions& options);

  const nn::Model& model() const { return model_; }
  const NnetScorerOptions& options() const { return options_; }
  int num_pdfs() const { return model_.network.out_dim(); }
  /// Subtracted from log-posteriors; by pdf-id.
  std::span<const float> scaled_priors() const { return scaled_priors_; }
  std::span<const int32_t> disabled() const { return disabled_; }

 private:
  nn::Model model_;
  NnetScorerOptions options_;
  std::vector<float> scaled_priors_;
  std::vector<int32_t> disabled_;
};

class NnetScorer : public ScoreSource {
 public:
  NnetScorer(std::shared_ptr<const NnetModel> model, Matrix frames);

  int num_pdfs() const override { return model_->num_pdfs(); }
  int num_frames_ready() const override { return static_cast<int>(frames_.rows()); }
  bool IsLastFrame(int frame) const override { return frame == num_frames_ready() - 1; }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  /// Valid until a frame of another block is asked for.
  std::span<const float> DenseFrame(int frame) override;

 private:
  void Score(int first_frame);

  std::shared_ptr<const NnetModel> model_;
  Matrix frames_;
  Matrix spliced_;
  Matrix scores_;
  int block_begin_ = 0;
  int block_end_ = 0;
  nn::Workspace workspace_;
};

}  // namespace antiphon::infer
