// The minibatches that Hessian-free training keeps of those in a gradient: the first for products of the curvature, the
// others to judge steps by.
//
// Threads: one owner. Errors: InputError for a damaged state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/kept_minibatch.h"

namespace antiphon::parallel {

class CurvatureSamples {
 public:
  /// Numbers of minibatches.
  CurvatureSamples(int64_t curvature, int64_t check) : curvature_(curvature), check_(check) {}

  /// UsageError unless a step can be judged by such targets; `sequence` null: training by frames.
  static void RequireTargets(const nn::LossTargets& targets, const nn::SequenceLoss* sequence);
  /// How many are kept at most.
  int64_t most() const { return curvature_ + check_; }
  /// Keeps what the step is given while there is room, and what recurrent layers of `workspace` carry into it.
  void Keep(const StepInput& input, const nn::Workspace& workspace);
  std::span<const KeptMinibatch> all() const { return minibatches_; }
  std::span<const KeptMinibatch> curvature() const {
    return all().first(std::min<size_t>(minibatches_.size(), static_cast<size_t>(curvature_)));
  }
  /// What comes behind the curvature sample, or that one where there is nothing else.
  std::span<const KeptMinibatch> check() const;

  void Replace(std::vector<KeptMinibatch> minibatches) { minibatches_ = std::move(minibatches); }
  std::vector<KeptMinibatch> Take() { return std::exchange(minibatches_, {}); }

  void Save(SafetensorsWriter& writer, const std::string& prefix) const;
  void Load(const SafetensorsReader& reader, const std::string& prefix, size_t count);

 private:
  int64_t curvature_;
  int64_t check_;
  std::vector<KeptMinibatch> minibatches_;
};

}  // namespace antiphon::parallel
