// Several networks side by side, and the weighted mean of what they give: y = Σ w_k·f_k(x) / Σ w_k.
//
//   [[layer]]
//   type = "ensemble"
//   members = [{ layers = [{ type = "tdnn", dim = 512 }, { type = "affine" }] },
//              { layers = [{ type = "affine" }], weight = 0.5 }]
//
// Networks trained apart, from different initial values, make different errors; the mean of their outputs makes fewer.
// `antiphon ensemble` puts trained ones together. Members may see different numbers of frames: an output stands for the
// same frame in all of them. Their strides are the same.
// Source: Hansen, Salamon, Neural network ensembles, IEEE PAMI 1990; of acoustic models: Deng, Platt, Ensemble deep
// learning for speech recognition, Interspeech 2014.
#include "nn/layers/ensemble.h"

#include <algorithm>
#include <utility>

#include "base/toml_text.h"
#include "kernels/elementwise.h"
#include "nn/layers/inner_chain.h"

namespace antiphon::nn {
namespace {

struct MemberOptions {
  double weight = 1.0;
  template <class V>
  void Visit(V& v) {
    v("weight", weight, Range{1e-6, 1e6},
      "in a table of `members`: share of its outputs in the mean, beside the others'");
  }
};

// The layer itself has no options: its table holds `members` alone.
struct EnsembleOptions {
  template <class V>
  void Visit(V&) {}
};

Network MakeMember(const LayerArgs& args, const Config& table, size_t k) {
  LayerArgs own = args;
  own.config = table;
  return MakeChain(own, "the list of a member's layers in 'ensemble'", MixSeed(args.seed, k), args.default_out_dim);
}

std::vector<Ensemble::Member> MakeMembers(const LayerArgs& args) {
  std::vector<std::string> keys = kCommonLayerKeys;
  keys.emplace_back("members");
  ReadOptions<EnsembleOptions>(args.config, keys);
  const std::vector<Config> tables = args.config.Tables("members");
  if (tables.empty()) {
    Throw<UsageError>("{}: `members` is missing, the networks of which 'ensemble' gives the mean", args.config.Where());
  }
  std::vector<Ensemble::Member> members;
  double sum = 0;
  for (size_t k = 0; k < tables.size(); ++k) {
    const double weight = ReadOptions<MemberOptions>(tables[k], {"layers"}).weight;
    members.push_back({MakeMember(args, tables[k], k), weight});
    sum += weight;
    const Network& first = members.front().network;
    const Network& network = members.back().network;
    if (network.out_dim() != first.out_dim() || network.time_context().stride != first.time_context().stride) {
      Throw<UsageError>(
          "{}: all members of 'ensemble' need the same number of outputs and the same stride: member 1 has {} and {}, "
          "member {} has {} and {}",
          tables[k].Where(), first.out_dim(), first.time_context().stride, k + 1, network.out_dim(),
          network.time_context().stride);
    }
  }
  for (Ensemble::Member& member : members) member.share = static_cast<float>(member.weight / sum);
  return members;
}

// The rows of what the ensemble sees that a member sees.
template <class View>
View SeenBy(const Ensemble::Member& member, const ExecContext& ctx, View x) {
  if (x.data() == nullptr) return x;
  const int64_t first = std::min(x.rows(), int64_t{member.left_unseen} * ctx.streams());
  const int64_t behind = std::min(x.rows() - first, int64_t{member.right_unseen} * ctx.streams());
  return x.Rows(first, x.rows() - first - behind);
}

// The first member's share begins the mean.
void AddShare(const Ensemble::Member& member, bool first, ConstMatrixView own, MatrixView mean) {
  if (first) {
    Scale(member.share, own, mean);
  } else {
    AddScaled(member.share, own, mean);
  }
}

constexpr size_t kDerivativeSlot = 0;

}  // namespace

Ensemble::Ensemble(const LayerArgs& args) : Ensemble(args, MakeMembers(args)) {}

Ensemble::Ensemble(const LayerArgs& args, std::vector<Member> members)
    : Layer(args.in_dim, members.front().network.out_dim()), members_(std::move(members)), index_(args.index) {
  context_.stride = members_.front().network.time_context().stride;
  for (const Member& member : members_) {
    context_.left = std::max(context_.left, member.network.time_context().left);
    context_.right = std::max(context_.right, member.network.time_context().right);
  }
  for (size_t k = 0; k < members_.size(); ++k) {
    Member& member = members_[k];
    member.left_unseen = context_.left - member.network.time_context().left;
    member.right_unseen = context_.right - member.network.time_context().right;
    const auto append = [&](std::span<Parameter* const> from, std::vector<Parameter*>& to) {
      for (Parameter* p : from) p->name = "member" + std::to_string(k + 1) + "." + p->name;
      to.insert(to.end(), from.begin(), from.end());
    };
    append(member.network.parameters(), parameters_);
    append(member.network.buffers(), buffers_);
  }
}

LayerProperties Ensemble::properties() const {
  return {.recurrent =
              std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.network.recurrent(); })};
}

HasTangent* Ensemble::tangent() {
  const bool all = std::all_of(members_.begin(), members_.end(), [](const Member& m) {
    return m.network.FirstWithoutTangent() == m.network.num_layers();
  });
  return all ? this : nullptr;
}

HasStatistics* Ensemble::statistics() {
  const bool some =
      std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.network.has_statistics(); });
  return some ? this : nullptr;
}

Constrained* Ensemble::constraint() {
  const bool some = std::any_of(members_.begin(), members_.end(), [](Member& m) { return IsConstrained(m.network); });
  return some ? this : nullptr;
}

void Ensemble::SetContextAbove(const TimeContext& above) {
  for (Member& member : members_) member.network.SetContextAbove(above);
}

void Ensemble::ResetStatistics() {
  for (Member& member : members_) member.network.ResetStatistics();
}

void Ensemble::AccumulateStatistics(Workspace& ws) {
  for (size_t k = 0; k < members_.size(); ++k) members_[k].network.AccumulateStatistics(ws.Child(k));
}

void Ensemble::ListStatistics(std::vector<Parameter*>& list) {
  for (Member& member : members_) member.network.ListStatistics(list);
}

void Ensemble::ListStillInputs(std::vector<StillInputs>& list) const {
  for (const Member& member : members_) member.network.ListStillUnits(list);
}

void Ensemble::FreezeStatistics() {
  for (Member& member : members_) member.network.FreezeStatistics();
}

void Ensemble::AfterSteps(int64_t first, int64_t count) {
  for (Member& member : members_) member.network.AfterSteps(first, count);
}

Config Ensemble::ToConfig() const {
  std::vector<Config> tables;
  for (const Member& member : members_) {
    tables.push_back(OptionsToConfig(MemberOptions{member.weight}));
    SetChain(member.network, tables.back());
  }
  Config config;
  config.Set("members", InlineTomlTables(tables));
  return config;
}

ExecContext Ensemble::InsideMember(const ExecContext& ctx, size_t k) const {
  return InsideChain(InsideChain(ctx, index_, 0), k, 0);
}

void Ensemble::DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
  for (size_t k = 0; k < members_.size(); ++k) {
    const Member& member = members_[k];
    const ConstMatrixView own = member.network.Forward(InsideMember(ctx, k), SeenBy(member, ctx, x), ws.Child(k));
    AddShare(member, k == 0, own, y);
  }
}

void Ensemble::DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                          GradientSink& sink) {
  const bool wanted = dx.data() != nullptr;
  for (int64_t r = 0; r < dx.rows(); ++r) std::fill_n(dx.Row(r).data(), dx.cols(), 0.0f);
  for (size_t k = 0; k < members_.size(); ++k) {
    Member& member = members_[k];
    const MatrixView share = ws.Float(kDerivativeSlot, dy.rows(), dy.cols());
    Scale(member.share, dy, share);
    const ConstMatrixView own = member.network.Backward(InsideMember(ctx, k), share, ws.Child(k), sink, wanted);
    if (wanted) AddScaled(1.0f, own, SeenBy(member, ctx, dx));
  }
}

void Ensemble::DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                         MatrixView dy) {
  for (size_t k = 0; k < members_.size(); ++k) {
    Member& member = members_[k];
    const ConstMatrixView own =
        member.network.Tangent(InsideMember(ctx, k), SeenBy(member, ctx, dx), direction, ws.Child(k));
    AddShare(member, k == 0, own, dy);
  }
}

namespace {

REGISTER_COMPONENT(LayerRegistry, "ensemble", [](const LayerArgs& args) { return std::make_unique<Ensemble>(args); });

}  // namespace
}  // namespace antiphon::nn
