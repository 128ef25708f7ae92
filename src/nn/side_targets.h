// What side heads of a network are to say of the frames of a minibatch: multi-task and adversarial training.
//
// A layer of type "side-task" (nn/layers/side_task.cc) learns the task of its name; tasks without such a layer are
// nobody's, and such a layer without its task learns nothing.
// Threads: written by the thread that runs Backward.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nn/loss.h"

namespace antiphon::nn {

/// Shares of classes, for each output of the network those from begin[n] to begin[n + 1].
struct ClassShares {
  struct Share {
    int32_t label = 0;
    float share = 0;
    bool operator==(const Share&) const = default;
  };
  std::vector<size_t> begin;  // one more than outputs; empty: none are said
  std::vector<Share> shares;
  std::span<const Share> Of(size_t output) const {
    return std::span(shares).subspan(begin[output], begin[output + 1] - begin[output]);
  }
};

struct SideTarget {
  std::string task;
  /// One class per output of the network; kUnknown: it counts neither in the loss nor in what that is divided by.
  /// Padding is unknown.
  std::vector<int32_t> labels;
  /// One per output, how much it counts; empty: all the same.
  std::vector<float> weights = {};
  /// In the place of labels, if not empty. An output's shares add up to how much it counts, which is nothing for
  /// padding. In sequences they are of the one frame that the output stands for.
  ClassShares shares = {};
  /// What the loss is divided by; default: how much all outputs count, and the loss has the share of these frames in
  /// the gradient (ExecContext::loss_share). Of shares alone.
  std::optional<double> total_weight = {};
  /// Loss and accuracy of the head, written by Backward.
  LossResult seen = {};
};

struct SideTargets {
  static constexpr int32_t kUnknown = -1;
  std::vector<SideTarget> tasks;
};

}  // namespace antiphon::nn
