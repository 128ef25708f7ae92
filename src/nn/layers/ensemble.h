// Several networks as one that gives the mean of their outputs (ensemble.cc), for those who run the members in their
// own way.
#pragma once

#include <vector>

#include "nn/network.h"

namespace antiphon::nn {

class Ensemble : public Layer, public HasTangent, public HasStatistics, public Constrained {
 public:
  struct Member {
    Network network;
    double weight = 1;  // as it was given
    float share = 1;    // of the mean; those of all members together are 1
    /// Frames of the ensemble's context, at its left and right end, that this member does not see.
    int left_unseen = 0, right_unseen = 0;
  };

  explicit Ensemble(const LayerArgs& args);

  const std::vector<Member>& members() const { return members_; }
  std::vector<Member>& members() { return members_; }

  std::span<Parameter* const> parameters() override { return parameters_; }
  std::span<Parameter* const> buffers() override { return buffers_; }
  TimeContext time_context() const override { return context_; }
  LayerProperties properties() const override;
  HasTangent* tangent() override;
  HasStatistics* statistics() override;
  Constrained* constraint() override;
  void SetContextAbove(const TimeContext& above) override;
  void ResetStatistics() override;
  void AccumulateStatistics(Workspace& ws) override;
  void ListStatistics(std::vector<Parameter*>& list) override;
  void ListStillInputs(std::vector<StillInputs>& list) const override;
  void FreezeStatistics() override;
  void AfterSteps(int64_t first, int64_t count) override;
  Config ToConfig() const override;

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override;
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override;
  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override;

 private:
  /// The size of the layer is that of its members, which are there before it.
  Ensemble(const LayerArgs& args, std::vector<Member> members);
  ExecContext InsideMember(const ExecContext& ctx, size_t k) const;

  std::vector<Member> members_;
  TimeContext context_;
  std::vector<Parameter*> parameters_, buffers_;
  uint64_t index_;
};

}  // namespace antiphon::nn
