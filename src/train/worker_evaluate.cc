// The part of Worker that measures: held-out data, and the statistics of batch normalisation, shared by all ranks.
#include <algorithm>
#include <numeric>

#include "adapt/restore.h"
#include "train/data_share.h"
#include "train/random_streams.h"
#include "train/worker.h"

namespace antiphon::train {

EvaluationResult Worker::EvaluateHeldOut(bool final) {
  const Timed timed(position_.other_seconds);
  EvaluationData data = ToEvaluate(
      held_out_store_, final ? held_out_utterances_
                             : LimitFrames(*held_out_store_, held_out_utterances_, options_.held_out.most_frames,
                                           SeedOf(task_.seed, RandomStream::kHeldOut)));
  data.sequence = sequence_;
  EvaluationRequest request;
  request.precision = ParsePrecision(options_.precision);
  if (final && phones_) request.phones = &*phones_;
  if (comm_.world_size() == 1) return Evaluate(network_, data, workspace_, request);
  EvaluationResult result;
  comm_.Together([&] { result = EvaluateTogether(data, request); });
  return result;
}

// No more frames at a time than in training, whose memory was counted.
EvaluationData Worker::ToEvaluate(std::shared_ptr<const data::FrameStore> store, std::vector<size_t> utterances) const {
  EvaluationData data;
  data.store = std::move(store);
  data.utterances = std::move(utterances);
  data.context = {options_.data.left_context, options_.data.right_context};
  data.heads = {options_.frames_per_forward, options_.first_frame_offset};
  data.minibatch = std::min(data.minibatch, options_.data.minibatch);
  data.SuitTo(outline_);
  return data;
}

EvaluationResult Worker::EvaluateShare(const EvaluationData& data, const EvaluationRequest& request) {
  if (data.utterances.empty()) return {};
  const auto forward = [this](const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& workspace) {
    const MatrixView logits = strategy_->Forward(context, x, workspace);
    return speaks() ? logits : MatrixView();
  };
  return Evaluate(forward, outline_.out_dim(), data, workspace_, request);
}

// Each replica evaluates its part of the utterances.
EvaluationResult Worker::EvaluateTogether(EvaluationData data, const EvaluationRequest& request) {
  if (data.utterances.empty()) {
    data.utterances.resize(data.store->utterances().size());
    std::iota(data.utterances.begin(), data.utterances.end(), size_t{0});
  }
  const parallel::DataShare share =
      parts_ ? strategy_->data_share() : parallel::DataShare{comm_.rank(), comm_.world_size()};
  std::vector<size_t> mine;
  for (auto i = static_cast<size_t>(share.index); i < data.utterances.size(); i += static_cast<size_t>(share.count)) {
    mine.push_back(data.utterances[i]);
  }
  data.utterances = std::move(mine);
  EvaluationResult result = EvaluateShare(data, request);
  std::vector<double> sums = {result.loss.loss_sum, result.loss.weight_sum, result.loss.correct_sum};
  const size_t phones = request.phones != nullptr ? request.phones->names.size() : 0;
  if (result.confusion.names.empty() && phones > 0) {
    result.confusion = {request.phones->names, std::vector(phones, std::vector<double>(phones, 0.0))};
  }
  for (const std::vector<double>& row : result.confusion.counts) sums.insert(sums.end(), row.begin(), row.end());
  comm_.AllReduce(std::span<double>(sums));
  result.loss = {sums[0], sums[1], sums[2]};
  for (size_t r = 0; r < phones; ++r) {
    const auto row = sums.begin() + static_cast<std::ptrdiff_t>(3 + r * phones);
    std::copy_n(row, phones, result.confusion.counts[r].begin());
  }
  return result;
}

void Worker::ProbeSideTask(TrainingSummary& summary) const {
  if (!side_) return;
  nn::Network plain = network_.Clone();
  adapt::RemoveSideTasks(plain);
  summary.side_layer = adapt::SideTaskPlace(plain, options_.side);
  summary.side_probe = Probe(plain, summary.side_layer, side_->Kinds(), task_.seed);
}

void Worker::RefreshStatistics(int64_t frames_of_all) {
  if (network_.has_statistics()) comm_.Together([&] { RefreshStatisticsTogether(frames_of_all); });
}

void Worker::RefreshStatisticsTogether(int64_t frames_of_all) {
  const parallel::DataShare share =
      parts_ ? strategy_->data_share() : parallel::DataShare{comm_.rank(), comm_.world_size()};
  const int64_t most_frames = frames_of_all / share.count;
  data::MinibatchStream stream(pool_, share.index, position_.epoch);
  nn::ExecContext context;
  context.precision = ParsePrecision(options_.precision);
  context.training = true;
  context.dropout_factor = 0;
  network_.ResetStatistics();
  int64_t frames = 0;
  while (frames < most_frames) {
    const data::Minibatch* minibatch = stream.Next();
    if (minibatch == nullptr || minibatch->features.empty()) break;
    const int64_t step = frames / options_.data.minibatch;
    frames += minibatch->features.rows();
    context.sequences = minibatch->sequences;
    strategy_->Forward(context, side_ ? side_->JoinFeatures(*minibatch, step, context) : minibatch->features,
                       workspace_);
    network_.AccumulateStatistics(workspace_);
  }
  if (share.count == 1) return;
  // Statistics are sums: those of all replicas together are the sums of theirs.
  for (size_t i = 0; i < network_.num_layers(); ++i) {
    if (!network_.layer(i).has_statistics()) continue;
    for (nn::Parameter* p : network_.layer(i).buffers()) {
      const std::span<float> values(p->value.data(), static_cast<size_t>(p->value.size()));
      if (!speaks()) std::fill(values.begin(), values.end(), 0.0f);
      comm_.AllReduce(values);
      p->MarkChanged();
    }
  }
}

}  // namespace antiphon::train
