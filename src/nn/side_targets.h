// What side heads of a network are to say of the frames of a minibatch: multi-task and adversarial training.
//
// A layer of type "side-task" (nn/layers/side_task.cc) learns the task of its name; tasks without such a layer are
// nobody's, and such a layer without its task learns nothing.
// Threads: written by the thread that runs Backward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/loss.h"

namespace antiphon::nn {

struct SideTarget {
  std::string task;
  /// One class per output of the network; kUnknown: it counts neither in the loss nor in what that is divided by.
  /// Padding is unknown.
  std::vector<int32_t> labels;
  /// One per output, how much it counts; empty: all the same.
  std::vector<float> weights = {};
  /// Loss and accuracy of the head, written by Backward.
  LossResult seen = {};
};

struct SideTargets {
  static constexpr int32_t kUnknown = -1;
  std::vector<SideTarget> tasks;
};

}  // namespace antiphon::nn
