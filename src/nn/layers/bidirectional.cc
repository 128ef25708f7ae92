// What was and what comes: y_t = [p_t, f_t], where p is a recurrent chain over all frames up to t, and f the same kind
// of chain over the frames t + right … t, latest first.
//
//   [[layer]]
//   type = "bidirectional"
//   right = 10
//   layers = [{type = "gru", dim = 256}]
//
// Each output sees the same number of coming frames, wherever a piece of the stream ends: training in chunks, decoding
// utterances and streaming (with a delay of `right` frames) compute the same. The chain over what comes starts anew for
// each output; its right + 1 steps are taken by all outputs together, one product each.
// Source: Schuster, Paliwal, Bidirectional recurrent neural networks, 1997; with a bounded future (latency-controlled):
// Zhang et al., Highway long short-term memory RNNs for distant speech recognition, ICASSP 2016.
#include "nn/layers/bidirectional.h"

#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"
#include "nn/layers/inner_chain.h"

namespace antiphon::nn {
namespace {

struct BidirectionalOptions {
  int right = 10;
  template <class V>
  void Visit(V& v) {
    v("right", right, Range{0, 1000}, "frames after its own that an output sees");
  }
};

Network Chain(const LayerArgs& args, uint64_t which) {
  Network network = MakeChain(args, "the chain that 'bidirectional' runs both ways", MixSeed(args.seed, which));
  if (!network.time_context().one_to_one() || !network.recurrent()) {
    Throw<UsageError>(
        "{}: the layers of 'bidirectional' are recurrent ones and others of one frame (lstm, gru, affine …)",
        args.config.Where());
  }
  for (size_t i = 0; i < network.num_layers(); ++i) {
    if (network.layer(i).has_statistics()) {
      Throw<UsageError>("{}: '{}' gathers statistics over frames, which here come more than once: put it behind",
                        args.config.Where(), network.layer_type(i));
    }
  }
  return network;
}

void AppendLines(const std::string& which, std::span<Parameter* const> from, std::vector<Parameter*>& to) {
  for (Parameter* p : from) {
    p->name = which + "." + p->name;
    to.push_back(p);
  }
}

enum Slot { kWindows, kPast, kFuture, kTangentWindows };

}  // namespace

Bidirectional::Bidirectional(const LayerArgs& args)
    : Bidirectional(args, ReadOptions<BidirectionalOptions>(args.config, KeysBesideChain()).right) {}

Bidirectional::Bidirectional(const LayerArgs& args, int right) : Bidirectional(args, right, Chain(args, 0)) {}

Bidirectional::Bidirectional(const LayerArgs& args, int right, Network past)
    : Layer(args.in_dim, 2 * past.out_dim()),
      right_(right),
      past_(std::move(past)),
      future_(Chain(args, 1)),
      index_(args.index) {
  AppendLines("past", past_.parameters(), parameters_);
  AppendLines("future", future_.parameters(), parameters_);
  AppendLines("past", past_.buffers(), buffers_);
  AppendLines("future", future_.buffers(), buffers_);
}

Constrained* Bidirectional::constraint() { return IsConstrained(past_) || IsConstrained(future_) ? this : nullptr; }

void Bidirectional::AfterSteps(int64_t first, int64_t count) {
  past_.AfterSteps(first, count);
  future_.AfterSteps(first, count);
}

Config Bidirectional::ToConfig() const {
  Config config = OptionsToConfig(BidirectionalOptions{right_});
  SetChain(past_, config);
  return config;
}

void Bidirectional::DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
  const int64_t rows = y.rows(), half = out_dim() / 2;
  Scale(1.0f, past_.Forward(InsideChain(ctx, index_, 0), x.Rows(0, rows), ws.Child(0)), y.Cols(0, half));
  const ConstMatrixView windows = Windows(ctx, x, rows, ws.Float(kWindows, (right_ + 1) * rows, x.cols()));
  const SequenceLayout layout{.streams = static_cast<int>(rows), .frames = right_ + 1};
  ExecContext inside = InsideChain(ctx, index_, 1);
  inside.sequences = &layout;
  if (rows == 0) return;
  const ConstMatrixView future = future_.Forward(inside, windows, ws.Child(1));
  Scale(1.0f, future.Rows(right_ * rows, rows), y.Cols(half, half));
}

ConstMatrixView Bidirectional::Windows(const ExecContext& ctx, ConstMatrixView x, int64_t rows,
                                       MatrixView windows) const {
  for (int k = 0; k <= right_; ++k) {
    Scale(1.0f, x.Rows(int64_t{right_ - k} * ctx.streams(), rows), windows.Rows(k * rows, rows));
  }
  return windows;
}

void Bidirectional::DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                               GradientSink& sink) {
  const bool wanted = dx.data() != nullptr;
  const int64_t rows = dy.rows(), half = out_dim() / 2;
  for (int64_t r = 0; r < dx.rows(); ++r) std::fill_n(dx.Row(r).data(), dx.cols(), 0.0f);
  if (rows == 0) return;
  const SequenceLayout layout{.streams = static_cast<int>(rows), .frames = right_ + 1};
  ExecContext inside = InsideChain(ctx, index_, 1);
  inside.sequences = &layout;
  const MatrixView last = ws.Float(kFuture, (right_ + 1) * rows, half);
  std::fill_n(last.data(), right_ * rows * half, 0.0f);
  Scale(1.0f, dy.Cols(half, half), last.Rows(right_ * rows, rows));
  const ConstMatrixView d_windows = future_.Backward(inside, last, ws.Child(1), sink, wanted);
  for (int k = 0; k <= right_ && wanted; ++k) {
    AddScaled(1.0f, d_windows.Rows(k * rows, rows), dx.Rows(int64_t{right_ - k} * ctx.streams(), rows));
  }
  const MatrixView first = ws.Float(kPast, rows, half);
  Scale(1.0f, dy.Cols(0, half), first);
  const ConstMatrixView d_past = past_.Backward(InsideChain(ctx, index_, 0), first, ws.Child(0), sink, wanted);
  if (wanted) AddScaled(1.0f, d_past, dx.Rows(0, rows));
}

void Bidirectional::DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction,
                              Workspace& ws, MatrixView dy) {
  const bool moves = dx.data() != nullptr;
  const int64_t rows = dy.rows(), half = out_dim() / 2;
  if (rows == 0) return;
  const ConstMatrixView past = moves ? dx.Rows(0, rows) : ConstMatrixView();
  Scale(1.0f, past_.Tangent(InsideChain(ctx, index_, 0), past, direction, ws.Child(0)), dy.Cols(0, half));
  const SequenceLayout layout{.streams = static_cast<int>(rows), .frames = right_ + 1};
  ExecContext inside = InsideChain(ctx, index_, 1);
  inside.sequences = &layout;
  ConstMatrixView windows;
  if (moves) windows = Windows(ctx, dx, rows, ws.Float(kTangentWindows, (right_ + 1) * rows, dx.cols()));
  const ConstMatrixView future = future_.Tangent(inside, windows, direction, ws.Child(1));
  Scale(1.0f, future.Rows(right_ * rows, rows), dy.Cols(half, half));
}

namespace {

REGISTER_COMPONENT(LayerRegistry, "bidirectional",
                   [](const LayerArgs& args) { return std::make_unique<Bidirectional>(args); });

}  // namespace
}  // namespace antiphon::nn
