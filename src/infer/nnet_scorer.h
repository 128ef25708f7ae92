// Acoustic scores of an utterance from a network: log p(s|x) − prior_scale · log p(s), blocks of frames at a time.
//
// NnetModel holds what all utterances share, the plan with its packed weights; an NnetScorer is one utterance. Frames
// come as the front end and normalisation leave them, one per row, all at once or as they arrive; context is spliced
// here, edge frames repeated. Classes that training never saw (relative count below 1e-10) are disabled: their score is
// kDisabledScore.
//
// A lazy scorer computes only the classes that the search asks for (lazy_output.h), without the log-softmax's constant
// per frame, which changes no decision of a search.
//
// frame-skip K scores every K-th frame and copies its scores to the K − 1 that follow (frame-asynchronous network). A
// network of several heads (nn::Model::frames_per_forward) gives the scores of as many frames at a time.
// Source: Vanhoucke, Devin, Heigold, Multiframe deep neural networks for acoustic modeling, ICASSP 2013.
//
// A network that looks at several frames, or carries a state, is run from an utterance's first frame to its last, each
// stream with its own state (plan.h); the first and the last frame are repeated as often as its outputs need. One that
// gives an output for every K-th frame scores all K with it; or, where the HMM has a frame for every K-th one too
// (nn::Model::frame_subsampling), the source's frames are the outputs, a K-th as many as frames that it takes.
//
// Shapes: frames [N, feature_dim]; N may be 0. Units: nats.
// Threads: one NnetModel for many threads; an NnetScorer belongs to one. Results do not depend on other utterances, on
// the blocks, nor (int8) on the instruction set.
// Errors: ShapeError naming both dimensions; InputError for a model without priors that needs them, and for features
// that are not finite.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "infer/frame_window.h"
#include "infer/lazy_output.h"
#include "infer/plan.h"
#include "math/matrix.h"
#include "nn/model.h"

namespace antiphon::infer {

struct NnetScorerOptions {
  double prior_scale = 1.0;
  int block_frames = 128;
  std::string precision = "fp32";
  std::string isa;
  int frame_skip = 1;
  bool log_softmax = true;
  bool lazy = false;
  int lazy_block = 8;
  double lazy_dense_share = 0.5;
  bool adaptable = false;

  template <class V>
  void Visit(V& v) {
    v("prior-scale", prior_scale, Range{0.0, 10.0}, "weight of the class priors that are taken out");
    v("block-frames", block_frames, Range{1, 1 << 16}, "frames that go through the network together");
    v("precision", precision, OneOf{{"fp32", "bf16", "int8", "auto"}},
      "arithmetic of the matrix products; auto: int8 for models stored so, else bf16 where the CPU has it, else fp32");
    v("isa", isa, "best instruction set that the network may use (avx2, avx512-vnni …); empty: what the CPU has");
    v("log-softmax", log_softmax, "scores are posteriors over priors; without: up to a constant per frame");
    v("lazy", lazy, "compute only the outputs that the search asks for (precision int8)");
    v("lazy-block", lazy_block, Range{1, 256}, "frames for which an output that one of them asks for is computed");
    v("lazy-dense-share", lazy_dense_share, Range{0.0, 1.0}, "share of the outputs above which all are computed");
    v("adaptable", adaptable,
      "speakers' profiles may change hidden values, which take no 8-bit range that nobody measured then");
    v("frame-skip", frame_skip, Range{1, 100}, "score every so many frames, and copy the scores to those between");
  }

  PlanOptions plan() const {
    return {ParsePlanPrecision(precision), isa.empty() ? BestIsa() : ParseIsa(isa), adaptable};
  }
};

class NnetModel {
 public:
  NnetModel(nn::Model model, const NnetScorerOptions& options);

  /// What describes the model. Its network is empty: the plan stands for it.
  const nn::Model& model() const { return model_; }
  const NnetScorerOptions& options() const { return options_; }
  const Plan& plan() const { return *plan_; }
  int num_pdfs() const { return num_pdfs_; }
  /// Frames that one evaluation of the network is for.
  int group() const { return frames_per_output() * model_.frames_per_forward; }
  /// Consecutive frames that have the scores of one output.
  int frames_per_output() const { return options_.frame_skip * plan_->time_context().stride; }
  /// Frames of the features for a frame of the search, whose times are in units of so many frame shifts.
  int subsampling() const { return model_.frame_subsampling; }
  /// Frames of the search for so many frames of the features.
  int SearchFrames(int frames) const { return (frames + subsampling() - 1) / subsampling(); }
  /// Without sequences: evaluation e gives the scores of the frames from e · group() on. Its window's centre, and how
  /// many evaluations have all the frames that they look at: up to an utterance's end every group counts.
  int Centre(int evaluation) const { return evaluation * group() - model_.first_frame_offset; }
  int EvaluationsReady(const FrameWindow& window) const;
  /// Subtracted from log-posteriors; by pdf-id.
  std::span<const float> scaled_priors() const { return scaled_priors_; }

  /// Of the network as it was loaded (nn/speaker_profile.h).
  const std::string& id() const { return id_; }
  /// For scorers of this model, which must be adaptable. InputError if the profile is another model's, or changes
  /// values that this plan has no place for.
  std::shared_ptr<const BoundProfile> Bind(nn::SpeakerProfile profile) const;

  /// An empty window of frames for one utterance.
  /// Frames to be run through a sequential plan for an utterance of `num_frames`, those repeated at its ends included;
  /// the first one is frame −left.
  int FramesToRun(int num_frames) const;
  FrameWindow NewWindow() const { return {model_.feature_dim, model_.left_context, model_.right_context}; }
  /// Turns logits [N, num_pdfs] into scores, in place; heads lie one after another, as frames do.
  void FinishScores(MatrixView logits) const;
  /// One of them, without log-softmax.
  float FinishScore(float logit, int32_t pdf_id) const;

  /// Null unless the options ask for it.
  const LazyOutput* lazy() const { return lazy_ ? &*lazy_ : nullptr; }
  /// Outputs that lazy scorers computed, as a share of all; 1 without lazy scorers.
  double computed_share() const;
  void CountOutputs(int64_t computed, int64_t total) const;

  /// Memory for runs of up to block_frames frames, given back when the pointer goes; as many as threads at a time.
  using BorrowedMemory = std::unique_ptr<PlanMemory, std::function<void(PlanMemory*)>>;
  BorrowedMemory BorrowMemory() const;

 private:
  nn::Model model_;
  NnetScorerOptions options_;
  nn::Network network_;  // if the plan needs it
  std::string id_;
  std::unique_ptr<const Plan> plan_;
  std::optional<const LazyOutput> lazy_;
  mutable std::atomic<int64_t> computed_{0}, total_{0};
  int num_pdfs_ = 0;
  std::vector<float> scaled_priors_;
  std::vector<int32_t> disabled_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<PlanMemory>> spare_;  // guarded by mutex_
};

/// How far a stream of a sequential plan has come.
class SequenceFeed {
 public:
  explicit SequenceFeed(const NnetModel& model) : model_(model), state_(model.plan()) {}
  /// Outputs whose frames are all there.
  int OutputsReady(const FrameWindow& window) const;
  /// Writes the next frames into `rows`, as many as are there; returns how many.
  int Take(FrameWindow& window, bool forget, MatrixView rows);
  /// How many frames Take would write at most.
  int Waiting(const FrameWindow& window) const;
  PlanState& state() { return state_; }
  /// Back to the utterance's first frame.
  void Restart();
  size_t bytes() const { return state_.bytes(); }

 private:
  const NnetModel& model_;
  PlanState state_;
  int taken_ = 0;
};
/// Frames as the profile changes them, into a window; ShapeError as FrameWindow, InputError if a value overflows.
void AcceptFrames(ConstMatrixView frames, const BoundProfile* profile, FrameWindow& window);

class NnetScorer : public ScoreSource {
 public:
  /// A whole utterance; frames may be asked for in any order. `profile`: the speaker's, null: none.
  NnetScorer(std::shared_ptr<const NnetModel> model, Matrix frames,
             std::shared_ptr<const BoundProfile> profile = nullptr);
  /// An utterance that is still being said; frames are asked for in order, and old ones are forgotten.
  explicit NnetScorer(std::shared_ptr<const NnetModel> model, std::shared_ptr<const BoundProfile> profile = nullptr);
  ~NnetScorer() override;

  /// More frames; not after Finish.
  void Accept(ConstMatrixView frames) { AcceptFrames(frames, profile_.get(), window_); }
  void Finish() { window_.Finish(); }

  int num_pdfs() const override { return model_->num_pdfs(); }
  int num_frames_ready() const override;
  bool IsLastFrame(int frame) const override {
    return window_.finished() && frame == model_->SearchFrames(window_.num_frames()) - 1;
  }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  /// Valid until a frame of another block is asked for; empty if lazy.
  std::span<const float> DenseFrame(int frame) override;
  void Request(int frame, std::span<const int32_t> pdf_ids) override;

 private:
  // Makes the block of the frame's evaluation the present one and returns the frame's row of scores.
  int RowOf(int frame);
  void Score(int first_evaluation);
  void ScoreSequence(int evaluation);
  int EvaluationsReady() const;

  std::shared_ptr<const NnetModel> model_;
  std::shared_ptr<const BoundProfile> profile_;
  std::vector<const BoundProfile*> rows_;  // the same for each row of a block; empty without
  FrameWindow window_;
  bool forgets_ = false;
  Matrix scores_;
  std::optional<LazyBlock> lazy_;
  std::optional<SequenceFeed> feed_;  // of a sequential plan
  int block_begin_ = 0;
  int block_end_ = 0;
};

}  // namespace antiphon::infer
