#include "train/sequence_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/compute_threads.h"
#include "base/error.h"
#include "train/targets.h"

namespace antiphon::train {
std::vector<UtteranceLoss::UtteranceRows> UtteranceLoss::FindUtterances() const {
  const auto utterances = store_->utterances();
  std::vector<std::pair<int64_t, int64_t>> frames;  // with their rows
  for (size_t r = 0; r < frame_ids_.size(); ++r) {
    if (frame_ids_[r] >= 0) frames.emplace_back(frame_ids_[r], static_cast<int64_t>(r));
  }
  std::ranges::sort(frames);
  std::vector<UtteranceRows> found;
  for (size_t i = 0; i < frames.size();) {
    const size_t u = UtteranceOfFrame(*store_, frames[i].first);
    const auto length = static_cast<size_t>(utterances[u].num_frames);
    if (frames[i].first != utterances[u].first_frame || i + length > frames.size() ||
        frames[i + length - 1].first != utterances[u].first_frame + utterances[u].num_frames - 1) {
      Throw<InputError>("utterance '{}' is not whole in a minibatch, which sequence training needs",
                        utterances[u].utt_id);
    }
    UtteranceRows rows{u, {}};
    for (; rows.rows.size() < length; ++i) rows.rows.push_back(frames[i].second);
    found.push_back(std::move(rows));
  }
  return found;
}

std::vector<int64_t> UtteranceLoss::RowsOfStreams(int first, int last, int streams) const {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < frame_ids_.size(); ++i) {
    const int stream = static_cast<int>(i % static_cast<size_t>(streams));
    if (stream >= first && stream < last) rows.push_back(frame_ids_[i]);
  }
  return rows;
}

nn::LossResult UtteranceLoss::Compute(ConstMatrixView logits, const nn::LossTargets& targets, MatrixView derivative) {
  CHECK_EQ(static_cast<size_t>(logits.rows()), frame_ids_.size());
  const std::vector<UtteranceRows> utterances = FindUtterances();
  const auto weight = [&](int64_t row) {
    return targets.frame_weights.empty() ? 1.0 : static_cast<double>(targets.frame_weights[static_cast<size_t>(row)]);
  };
  double total = 0;
  for (const UtteranceRows& u : utterances) total += weight(u.rows[0]) * static_cast<double>(u.rows.size());
  total = targets.total_weight.value_or(total);
  std::vector<nn::LossResult> results(utterances.size());
  ParallelPieces(static_cast<int64_t>(utterances.size()), [&](int64_t piece, int /*thread*/) {
    const auto i = static_cast<size_t>(piece);
    WithContext([&] { results[i] = OfUtterance(utterances[i], logits, targets, total, derivative); },
                [&] { return fmt::format("utterance '{}'", store_->utterances()[utterances[i].utterance].utt_id); });
  });
  for (int64_t r = 0; r < derivative.rows(); ++r) {
    if (frame_ids_[static_cast<size_t>(r)] < 0) std::ranges::fill(derivative.Row(r), 0.0f);
  }
  nn::LossResult sum;
  for (const nn::LossResult& result : results) sum += result;
  return sum;
}

nn::LossResult UtteranceLoss::OfUtterance(const UtteranceRows& rows, ConstMatrixView logits,
                                          const nn::LossTargets& targets, double total, MatrixView derivative) const {
  const auto length = static_cast<int64_t>(rows.rows.size());
  std::vector<int32_t> pdf_ids(rows.rows.size());
  store_->ReadPdfIds(rows.utterance, pdf_ids);
  Matrix scores(length, logits.cols());
  Matrix gradient(derivative.empty() ? 0 : length, logits.cols());
  nn::LossResult result;
  for (int64_t t = 0; t < length; ++t) {
    const auto z = logits.Row(rows.rows[static_cast<size_t>(t)]);
    std::ranges::copy(z, scores.Row(t).begin());
    if (std::ranges::max_element(z) - z.begin() == pdf_ids[static_cast<size_t>(t)]) result.correct_sum += 1;
  }
  const double h = cross_entropy_weight_;
  const double loss = criterion_->Loss(store_->utterances()[rows.utterance].utt_id, scores, gradient);
  result.loss_sum = (1 - h) * loss;
  const double weight = targets.frame_weights.empty()
                            ? 1.0
                            : static_cast<double>(targets.frame_weights[static_cast<size_t>(rows.rows[0])]);
  const double scale = total > 0 ? weight / total : 0;
  for (int64_t t = 0; t < length; ++t) {
    const int64_t row = rows.rows[static_cast<size_t>(t)];
    std::span<float> g = gradient.empty() ? std::span<float>() : gradient.Row(t);
    for (float& v : g) v *= static_cast<float>(1 - h);
    if (h > 0) result.loss_sum += h * AddCrossEntropy(logits.Row(row), pdf_ids[static_cast<size_t>(t)], g);
    if (!g.empty())
      std::ranges::transform(g, derivative.Row(row).begin(),
                             [&](float v) { return static_cast<float>(scale * static_cast<double>(v)); });
  }
  result.loss_sum *= weight;
  result.correct_sum *= weight;
  result.weight_sum = weight * static_cast<double>(length);
  return result;
}

// Returns −log softmax(logits)[pdf_id]; adds h times its derivative to `gradient`, unless that is empty.
double UtteranceLoss::AddCrossEntropy(std::span<const float> logits, int32_t pdf_id, std::span<float> gradient) const {
  const double most = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float z : logits) sum += std::exp(static_cast<double>(z) - most);
  const double log_sum = most + std::log(sum);
  for (size_t k = 0; k < gradient.size(); ++k) {
    const double q = std::exp(static_cast<double>(logits[k]) - log_sum);
    gradient[k] += static_cast<float>(cross_entropy_weight_ * (q - (static_cast<int32_t>(k) == pdf_id ? 1.0 : 0.0)));
  }
  return log_sum - static_cast<double>(logits[static_cast<size_t>(pdf_id)]);
}

}  // namespace antiphon::train
