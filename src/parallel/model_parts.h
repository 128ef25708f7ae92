// Who holds which part of a model that several ranks hold together.
//
// Ranks r·n … r·n + n − 1 hold replica r; position p of each holds the same outputs of the same layers. Layers may be
// held by one position, divided by outputs, or held by all. A rank's network is made with its part alone
// (nn/network.h), and no rank ever has more: values go to rank 0 one piece at a time.
// Threads: one rank each; a ModelParts is only read. Errors: UsageError for what cannot be divided; those of the
// communicator.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "base/registry.h"
#include "comm/communicator.h"
#include "nn/network.h"

namespace antiphon::parallel {

class ModelParts {
 public:
  /// By position in a replica, then by layer.
  explicit ModelParts(std::vector<std::vector<nn::OutputRange>> by_position) : by_position_(std::move(by_position)) {}

  /// Ranks that hold one replica.
  int ranks() const { return static_cast<int>(by_position_.size()); }
  int position(int rank) const { return rank % ranks(); }
  const std::vector<nn::OutputRange>& Of(int rank) const { return by_position_[static_cast<size_t>(position(rank))]; }
  bool operator==(const ModelParts&) const = default;

 private:
  std::vector<std::vector<nn::OutputRange>> by_position_;
};

/// Outputs of a layer that is divided evenly.
nn::OutputRange EvenRange(int out_dim, int part, int parts);

/// Values [first, first + count) of a whole parameter, row by row.
struct ValueRange {
  int64_t first = 0;
  int64_t count = 0;
};
/// Those of parameter `p` of a layer with `out_dim` outputs that come with outputs `range`.
ValueRange ValuesOf(const nn::Parameter& p, int out_dim, nn::OutputRange range);

/// Rank 0 sees all values of the parameters or buffers that the first replica holds as `number` of layer `layer`, in
/// order, by `take` (called on rank 0 only, with pieces of at most a few MB). `network` is the rank's part. Collective;
/// replicas but the first do nothing.
void StreamParameter(comm::Communicator& comm, const ModelParts& parts, nn::Network& network, size_t layer, bool buffer,
                     size_t number, const std::function<void(std::span<const float>)>& take);

/// What a method that divides models may look at.
struct DivisionTask {
  const Config* parallel = nullptr;    // its table
  nn::Network* outline = nullptr;      // of the whole model
  comm::Communicator* comm = nullptr;  // all ranks ask together
};
/// Null: with these settings every rank holds everything.
using DivisionRegistry = Registry<ModelParts, const DivisionTask&>;

/// As the method named by `parallel` divides the model; null if it does not.
std::unique_ptr<ModelParts> DivideModel(const Config& parallel, nn::Network& outline, comm::Communicator& comm);

}  // namespace antiphon::parallel
