// What of a model's values each of the ranks that learn one model together steps, where they divide that work and the
// memory for it.
//
// Every rank holds all weights. Of each matrix it steps about one rows' N-th, of vectors every N-th one: an optimiser
// made of `stepped()` keeps momenta for these alone, so that N ranks need its memory once together. Rows stay whole,
// whoever steps them: what adds up rows (max-change) has the same bits as without a division. Afterwards the ranks send
// each other the rows that they stepped (parallel/gradient_exchange.h).
//
// Layout: rows of one parameter after the other, each parameter on 64 bytes. Units: values. Threads: one rank's.
// Errors: InputError for a state that does not fit. Source: Rajbhandari et al., SC 2020 (ZeRO, stages 1 and 2).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "comm/communicator.h"
#include "math/safetensors.h"
#include "nn/network.h"
#include "optim/optimizer.h"

namespace antiphon::parallel {

/// What the workers divide: the optimiser's state, or that and the sum of gradients.
enum class Divide { kNothing, kOptimizer, kGradients };
inline constexpr const char* kDivideKey = "divide";
/// "nothing", "optimizer", "gradients"; UsageError otherwise.
Divide ParseDivide(const std::string& name);

/// Rows of a parameter, and where they lie among a rank's values.
struct RowShare {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t offset = 0;
};

class ValueShare {
 public:
  /// The network's values must not move while this lives.
  ValueShare(nn::Network& network, comm::Communicator& comm);
  ValueShare(const ValueShare&) = delete;
  ValueShare& operator=(const ValueShare&) = delete;

  const optim::SteppedValues& stepped() const { return stepped_; }
  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  /// Of parameter `number` of the network; the parameter that stands for this rank's rows, and what any rank steps.
  nn::Parameter& own(size_t number) const { return *slices_[number]; }
  RowShare Of(size_t number, int rank) const { return layouts_[static_cast<size_t>(rank)][number]; }

 private:
  int ranks_;
  int rank_;
  std::vector<std::vector<RowShare>> layouts_;  // by rank, then by parameter
  std::vector<std::unique_ptr<nn::Parameter>> slices_;
  std::vector<nn::Parameter*> pointers_;
  optim::SteppedValues stepped_;
};

/// As the key `divide` of the table [parallel] says; null: every rank steps everything.
std::unique_ptr<ValueShare> DivideValues(const Config& parallel, nn::Network& network, comm::Communicator& comm);

/// Writes the optimiser's state and how it was divided; null: it was not.
void SaveOptimizer(SafetensorsWriter& writer, const optim::Optimizer& optimizer, const ValueShare* share);
/// How many ranks divided the state that a checkpoint holds a part of; 1: it is whole.
int RanksOfState(const SafetensorsReader& reader);
/// Loads what ranks of another number, or another division, have saved: their files, in the order of ranks. What is no
/// number per value comes from rank `own` of them, whose file then holds this rank's state.
void LoadOptimizerFrom(std::span<SafetensorsReader> ranks, size_t own, const nn::Network& network,
                       optim::Optimizer& optimizer, const ValueShare* share);

}  // namespace antiphon::parallel
