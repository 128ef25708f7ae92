#include "parallel/data_parallel_front.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace antiphon::parallel {
namespace {

// Of the front's own part of a workspace.
enum Slot { kInput, kOutputs, kOwnDerivative };

}  // namespace

DataParallelFront::DataParallelFront(nn::Network& network, size_t layers, RankGroup& group)
    : network_(network), layers_(layers), group_(group), cost_(network), sums_(group) {
  CHECK(layers > 0 && layers < network.num_layers()) << layers;
  gradients_.resize(network.values({0, layers}).size());
}

// Rows of one time are a block, of which a rank gets its streams; single frames are one block.
void DataParallelFront::Deal(const nn::ExecContext& context, int64_t rows) {
  const SequenceLayout* const whole = context.sequences;
  context_ = context;
  context_.ranks = &sums_;
  context_.step = context.step * group_.size() + group_.index();
  if (whole == nullptr) {
    dealt_ = network_.needs_sequences() ? 1 : static_cast<int>(rows);
    return;
  }
  dealt_ = whole->streams;
  const nn::OutputRange own = Share(group_.index());
  layout_ = {};  // as an empty minibatch has it
  context_.sequences = &layout_;
  if (own.count == 0) return;
  const auto of_own = [&](auto values) {
    return values.empty() ? values : values.subspan(static_cast<size_t>(own.first), static_cast<size_t>(own.count));
  };
  layout_ = {own.count, whole->frames, of_own(whole->begins), of_own(whole->lengths)};
}

int64_t DataParallelFront::RowsOf(int position, int64_t all) const {
  return dealt_ > 0 ? all / dealt_ * Share(position).count : 0;
}

void DataParallelFront::PickRows(ConstMatrixView all, int position, float* to) const {
  const nn::OutputRange share = Share(position);
  if (share.count == 0) return;
  for (int64_t block = 0; block < all.rows(); block += dealt_) {
    for (int64_t row = block + share.first; row < block + share.first + share.count; ++row) {
      to = std::copy_n(all.Row(row).data(), all.cols(), to);
    }
  }
}

ConstMatrixView DataParallelFront::OwnInput(ConstMatrixView x, nn::Workspace& ws) const {
  const nn::OutputRange own = Share(group_.index());
  if (dealt_ == x.rows()) return x.Rows(own.first, own.count);
  const MatrixView mine = Room(ws).Float(kInput, RowsOf(group_.index(), x.rows()), x.cols());
  PickRows(x, group_.index(), mine.data());
  return mine;
}

MatrixView DataParallelFront::Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) {
  Deal(context, x.rows());
  const MatrixView mine = network_.Forward(context_, OwnInput(x, ws), {0, layers_}, ws);
  int64_t rows = x.rows();
  for (size_t i = 0; i < layers_; ++i) rows = network_.layer(i).OutputRows(context, rows);
  const MatrixView all = Room(ws).Float(kOutputs, rows, mine.cols());
  Gather(mine, all);
  return all;
}

void DataParallelFront::Count(double flops_per_row, int64_t rows) const {
  const double flops = flops_per_row * static_cast<double>(rows);
  if (flops > 0) group_.comm().ComputeFlops(flops);
}

void DataParallelFront::CountForward(nn::Workspace& ws) const {
  for (size_t i = 0; i < layers_; ++i) Count(cost_.forward_flops(i), ws.Child(i).y.rows());
}

void DataParallelFront::Gather(ConstMatrixView mine, MatrixView all) {
  CHECK_EQ(mine.rows(), RowsOf(group_.index(), all.rows()));
  const std::span<const float> values(mine.data(), static_cast<size_t>(mine.size()));
  for (int p = 0; p < group_.size(); ++p) {
    if (p != group_.index()) group_.SendTo(p, values);
  }
  for (int p = 0; p < group_.size(); ++p) {
    const nn::OutputRange share = Share(p);
    const auto place = [&](std::span<const float> theirs) {
      CHECK_EQ(std::ssize(theirs), RowsOf(p, all.rows()) * all.cols());
      const float* from = theirs.data();
      for (int64_t block = 0; block < all.rows() && share.count > 0; block += dealt_) {
        std::copy_n(from, share.count * all.cols(), all.Row(block + share.first).data());
        from += share.count * all.cols();
      }
    };
    if (p == group_.index()) {
      place(values);
    } else {
      group_.ReceiveFrom(p, place);
    }
  }
}

void DataParallelFront::SendDerivative(ConstMatrixView part) {
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) continue;
    message_.resize(static_cast<size_t>(RowsOf(p, part.rows()) * part.cols()));
    PickRows(part, p, message_.data());
    group_.SendTo(p, message_);
  }
}

// In the order of the group, as all sums are.
ConstMatrixView DataParallelFront::SumDerivative(ConstMatrixView part, nn::Workspace& ws) {
  const MatrixView sum = Room(ws).Derivative(0, RowsOf(group_.index(), part.rows()), part.cols());
  for (int p = 0; p < group_.size(); ++p) {
    const auto add = [&](std::span<const float> theirs) {
      CHECK_EQ(std::ssize(theirs), sum.size());
      const float* from = theirs.data();
      for (int64_t n = 0; n < sum.rows(); ++n, from += sum.cols()) {
        float* const row = sum.Row(n).data();
        for (int64_t c = 0; c < sum.cols(); ++c) row[c] = p == 0 ? from[c] : row[c] + from[c];
      }
    };
    if (p == group_.index()) {
      message_.resize(static_cast<size_t>(sum.size()));
      PickRows(part, p, message_.data());
      add(message_);
    } else {
      group_.ReceiveFrom(p, add);
    }
  }
  return sum;
}

ConstMatrixView DataParallelFront::OwnRows(ConstMatrixView derivative, nn::Workspace& ws) const {
  const int64_t rows = RowsOf(group_.index(), derivative.rows());
  const MatrixView own = Room(ws).Float(kOwnDerivative, rows, derivative.cols());
  PickRows(derivative, group_.index(), own.data());
  return own;
}

std::string DataParallelFront::Describe() const {
  return fmt::format("the lowest {} layers, up to '{}', are data-parallel over {} ranks", layers_,
                     network_.layer_name(layers_ - 1), group_.size());
}

void DataParallelFront::Backward(const nn::ExecContext& context, ConstMatrixView derivative, nn::Workspace& ws,
                                 nn::GradientSink& sink, optim::Optimizer& optimizer) {
  context_.loss_weight = context.loss_weight;
  context_.loss_share = context.loss_share;
  std::ranges::fill(gradients_, 0.0f);
  nn::DenseGradientSink own(gradients_);
  const bool by_factors = optimizer.needs_factors() && &sink == &optimizer;
  if (by_factors) optimizer.PassFactorsTo(&own);
  nn::GradientSink& taker = by_factors ? static_cast<nn::GradientSink&>(optimizer) : own;
  network_.Backward(context_, derivative, {0, layers_}, ws, taker, false,
                    [&](size_t layer) { Count(cost_.backward_flops(layer), ws.Child(layer).y.rows()); });
  if (by_factors) optimizer.PassFactorsTo(nullptr);
  group_.AllReduce(std::span<float>(gradients_));
  for (size_t i = layers_; i-- > 0;) {
    const auto parameters = network_.layer(i).parameters();
    for (size_t n = parameters.size(); n-- > 0;) {
      nn::Parameter& p = *parameters[n];
      if (p.learning_rate_factor == 0) continue;
      sink.TakeDense(p, ConstMatrixView(gradients_.data() + p.offset, p.value.rows(), p.value.cols()));
    }
  }
}

}  // namespace antiphon::parallel
