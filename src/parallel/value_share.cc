#include "parallel/value_share.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace antiphon::parallel {
namespace {

constexpr const char* kState = "optimizer";
constexpr const char* kStateRanks = "value-share";
constexpr int64_t kAlignment = 16;  // values

struct Layout {
  std::vector<RowShare> shares;  // by parameter
  size_t num_values = 0;
};

// What `rank` of `ranks` steps. One rank alone has everything where the network has it.
Layout LayoutOf(const nn::Network& network, int rank, int ranks) {
  Layout layout;
  int64_t vectors = 0;
  int64_t offset = 0;
  for (const nn::Parameter* p : network.parameters()) {
    const int64_t rows = p->value.rows();
    RowShare share{rows * rank / ranks, 0, offset};
    share.rows = rows * (rank + 1) / ranks - share.first_row;
    if (rows == 1) share = {0, vectors++ % ranks == rank ? 1 : 0, offset};
    if (ranks == 1) share.offset = p->offset;
    offset = (offset + share.rows * p->value.cols() + kAlignment - 1) / kAlignment * kAlignment;
    layout.shares.push_back(share);
  }
  layout.num_values = ranks == 1 ? network.num_values() : static_cast<size_t>(offset);
  return layout;
}

// A vector of one number per value, cut as `mine` from those of ranks of then.
std::vector<float> Fold(std::span<SafetensorsReader> ranks, const std::string& tensor, const nn::Network& network,
                        const Layout& mine) {
  const int then = RanksOfState(ranks[0]);
  std::vector<float> values(mine.num_values, 0.0f);
  for (int r = 0; r < then; ++r) {
    const SafetensorsReader& reader = ranks[static_cast<size_t>(r)];
    const Layout theirs = LayoutOf(network, r, then);
    const TensorView& view = reader.Tensor(tensor);
    if (view.type != TensorType::kF32 || view.data.size() != theirs.num_values * sizeof(float)) {
      Throw<InputError>("'{}': tensor '{}' has {} bytes, expected {} values", reader.path().string(), tensor,
                        view.data.size(), theirs.num_values);
    }
    for (size_t i = 0; i < mine.shares.size(); ++i) {
      const RowShare& to = mine.shares[i];
      const RowShare& from = theirs.shares[i];
      const int64_t cols = network.parameters()[i]->value.cols();
      const int64_t first = std::max(to.first_row, from.first_row);
      const int64_t end = std::min(to.first_row + to.rows, from.first_row + from.rows);
      if (first >= end || cols == 0) continue;
      std::memcpy(values.data() + to.offset + (first - to.first_row) * cols,
                  view.data.data() + static_cast<size_t>(from.offset + (first - from.first_row) * cols) * sizeof(float),
                  static_cast<size_t>((end - first) * cols) * sizeof(float));
    }
  }
  return values;
}

}  // namespace

Divide ParseDivide(const std::string& name) {
  if (name == "nothing") return Divide::kNothing;
  if (name == "optimizer") return Divide::kOptimizer;
  if (name == "gradients") return Divide::kGradients;
  Throw<UsageError>("parallel.{}: expected nothing, optimizer or gradients, found '{}'", kDivideKey, name);
}

ValueShare::ValueShare(nn::Network& network, comm::Communicator& comm)
    : ranks_(comm.world_size()), rank_(comm.rank()), stepped_(network) {
  for (int r = 0; r < ranks_; ++r) layouts_.push_back(LayoutOf(network, r, ranks_).shares);
  const std::span<nn::Parameter* const> all = network.parameters();
  for (size_t i = 0; i < all.size(); ++i) {
    const nn::Parameter& p = *all[i];
    const RowShare mine = Of(i, comm.rank());
    nn::Parameter& slice = *slices_.emplace_back(std::make_unique<nn::Parameter>(p.name, 0, p.value.cols()));
    slice.value = p.value.Rows(mine.first_row, mine.rows);
    slice.offset = mine.offset;
    slice.whole = {p.value.rows(), p.value.cols(), mine.first_row * p.value.cols()};
    slice.learning_rate_factor = p.learning_rate_factor;
    slice.decay_factor = p.decay_factor;
    slice.max_change = p.max_change;
    slice.weight = p.weight != nullptr ? p.weight : &p;  // what those of a weight and its bias have in common
    pointers_.push_back(&slice);
  }
  stepped_.parameters = pointers_;
  stepped_.num_values = LayoutOf(network, comm.rank(), ranks_).num_values;
  stepped_.sum_over_ranks = [&comm](std::span<double> values) { comm.AllReduce(values); };
}

std::unique_ptr<ValueShare> DivideValues(const Config& parallel, nn::Network& network, comm::Communicator& comm) {
  const Divide divide = ParseDivide(parallel.Text(kDivideKey).value_or("nothing"));
  if (divide == Divide::kNothing || comm.world_size() == 1) return nullptr;
  return std::make_unique<ValueShare>(network, comm);
}

void SaveOptimizer(SafetensorsWriter& writer, const optim::Optimizer& optimizer, const ValueShare* share) {
  optimizer.SaveState(writer, kState);
  if (share == nullptr) return;
  const int64_t ranks = share->ranks();
  writer.Add(kStateRanks, std::span<const int64_t>(&ranks, 1));
}

int RanksOfState(const SafetensorsReader& reader) {
  return reader.Has(kStateRanks) ? static_cast<int>(reader.ReadInts(kStateRanks).at(0)) : 1;
}

void LoadOptimizerFrom(std::span<SafetensorsReader> ranks, size_t own, const nn::Network& network,
                       optim::Optimizer& optimizer, const ValueShare* share) {
  const int then = RanksOfState(ranks[0]);
  if (then < 1 || static_cast<size_t>(then) > ranks.size()) {
    Throw<InputError>("'{}': the optimiser's state is divided over {} ranks, there are files of {}",
                      ranks[0].path().string(), then, ranks.size());
  }
  const Layout mine = LayoutOf(network, share != nullptr ? share->rank() : 0, share != nullptr ? share->ranks() : 1);
  std::vector<std::pair<std::string, std::vector<float>>> folded;
  for (const std::string& name : optimizer.state_of_values()) {
    folded.emplace_back(kState + name, Fold(ranks, kState + name, network, mine));
  }
  for (auto& [name, values] : folded) ranks[own].Replace(name, std::move(values));
  optimizer.LoadState(ranks[own], kState);
}

}  // namespace antiphon::parallel
