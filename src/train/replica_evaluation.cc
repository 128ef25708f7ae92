#include "train/replica_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "adapt/restore.h"
#include "hmm/hmm_model.h"
#include "train/data_share.h"
#include "train/random_streams.h"

namespace antiphon::train {

EvaluationResult ReplicaEvaluation::HeldOut(bool final) {
  EvaluationData data =
      ToEvaluate(data_.held_out_store,
                 final ? data_.held_out_utterances
                       : LimitFrames(*data_.held_out_store, data_.held_out_utterances, options_.held_out.most_frames,
                                     SeedOf(task_.seed, RandomStream::kHeldOut)));
  data.sequence = data_.sequence;
  EvaluationRequest request;
  request.precision = ParsePrecision(options_.precision);
  if (final && data_.phones) request.phones = &*data_.phones;
  if (comm_.world_size() == 1) return Evaluate(replica_.network(), data, workspace_, request);
  EvaluationResult result;
  comm_.Together([&] { result = EvaluateTogether(data, request); });
  return result;
}

// No more frames at a time than in training, whose memory was counted.
EvaluationData ReplicaEvaluation::ToEvaluate(std::shared_ptr<const data::FrameStore> store,
                                             std::vector<size_t> utterances) const {
  EvaluationData data;
  data.store = std::move(store);
  data.utterances = std::move(utterances);
  data.context = {options_.data.left_context, options_.data.right_context};
  data.heads = {options_.frames_per_forward, options_.first_frame_offset};
  data.minibatch = std::min(data.minibatch, options_.data.minibatch);
  data.SuitTo(std::as_const(replica_).outline());
  return data;
}

EvaluationResult ReplicaEvaluation::EvaluateShare(const EvaluationData& data, const EvaluationRequest& request) {
  if (data.utterances.empty()) return {};
  const auto forward = [this](const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& workspace) {
    const MatrixView logits = replica_.strategy().Forward(context, x, workspace);
    return replica_.speaks() ? logits : MatrixView();
  };
  return Evaluate(forward, replica_.outline().out_dim(), data, workspace_, request);
}

// Each replica evaluates its part of the utterances.
EvaluationResult ReplicaEvaluation::EvaluateTogether(EvaluationData data, const EvaluationRequest& request) {
  if (data.utterances.empty()) {
    data.utterances.resize(data.store->utterances().size());
    std::iota(data.utterances.begin(), data.utterances.end(), size_t{0});
  }
  const parallel::DataShare share = replica_.share();
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

std::vector<float> ReplicaEvaluation::LogPriors() {
  if (data_.sequence) return data_.sequence->log_priors();
  if (options_.priors == PriorSource::kAlignment) {
    std::vector<int64_t> counts;
    comm_.Together([&] { counts = CountPdfsTogether(comm_, *task_.store, *data_.pool); });
    return hmm::LogPriors(std::vector<double>(counts.begin(), counts.end()));
  }
  return MeanPosteriors();
}

// By the first replica.
std::vector<float> ReplicaEvaluation::MeanPosteriors() {
  const int ranks = replica_.parts() != nullptr ? replica_.parts()->ranks() : 1;
  EvaluationResult result;
  if (comm_.rank() < ranks) {
    const bool dealt = data_.distribution == Distribution::kShards;
    const EvaluationData data =
        ToEvaluate(task_.store, LimitFrames(*task_.store, dealt ? data_.pool->UtterancesOf(0) : data_.train_utterances,
                                            options_.held_out.most_frames, task_.seed));
    EvaluationRequest request;
    request.mean_posterior = true;
    result = EvaluateShare(data, request);
  }
  result.mean_posterior.resize(static_cast<size_t>(replica_.outline().out_dim() / options_.frames_per_forward), 0.0);
  if (ranks > 1) comm_.AllReduce(std::span<double>(result.mean_posterior));
  std::vector<float> priors(result.mean_posterior.size());
  for (size_t i = 0; i < priors.size(); ++i) {
    priors[i] = static_cast<float>(std::min(0.0, std::log(std::max(result.mean_posterior[i], 1e-20))));
  }
  return priors;
}

void ReplicaEvaluation::ProbeSideTask(TrainingSummary& summary) const {
  if (replica_.side() == nullptr) return;
  nn::Network plain = replica_.network().Clone();
  adapt::RemoveSideTasks(plain);
  summary.side_layer = adapt::SideTaskPlace(plain, options_.side);
  summary.side_probe = Probe(plain, summary.side_layer, replica_.side()->Kinds(), task_.seed);
}

void ReplicaEvaluation::RefreshStatistics(int64_t epoch, int64_t frames_of_all) {
  if (replica_.network().has_statistics()) comm_.Together([&] { RefreshStatisticsTogether(epoch, frames_of_all); });
}

void ReplicaEvaluation::RefreshStatisticsTogether(int64_t epoch, int64_t frames_of_all) {
  nn::Network& network = replica_.network();
  const parallel::DataShare share = replica_.share();
  const int64_t most_frames = frames_of_all / share.count;
  data::MinibatchStream stream(data_.pool, share.index, epoch);
  nn::ExecContext context;
  context.precision = ParsePrecision(options_.precision);
  context.training = true;
  context.dropout_factor = 0;
  network.ResetStatistics();
  int64_t frames = 0;
  while (frames < most_frames) {
    const data::Minibatch* minibatch = stream.Next();
    if (minibatch == nullptr || minibatch->features.empty()) break;
    const int64_t step = frames / options_.data.minibatch;
    frames += minibatch->features.rows();
    context.sequences = minibatch->sequences;
    SideSpeech* const side = replica_.side();
    replica_.strategy().Forward(
        context, side != nullptr ? side->JoinFeatures(*minibatch, step, context) : minibatch->features, workspace_);
    network.AccumulateStatistics(workspace_);
  }
  if (share.count == 1) return;
  // Statistics are sums: those of all replicas together are the sums of theirs.
  std::vector<nn::Parameter*> statistics;
  network.ListStatistics(statistics);
  for (nn::Parameter* p : statistics) {
    const std::span<float> values(p->value.data(), static_cast<size_t>(p->value.size()));
    if (!replica_.speaks()) std::fill(values.begin(), values.end(), 0.0f);
    comm_.AllReduce(values);
    p->MarkChanged();
  }
}

}  // namespace antiphon::train
