#include "chain/chain_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/compute_threads.h"
#include "base/error.h"
#include "kernels/parallel.h"

namespace antiphon::chain {
namespace {

bool AllFinite(ConstMatrixView outputs) {
  std::vector<char> finite(static_cast<size_t>(outputs.rows()), 1);
  ParallelItems(outputs.rows(), outputs.size(), [&](int64_t row) {
    // Nothing but finite values give 0.
    float sum = 0;
    for (const float v : outputs.Row(row)) sum += v * 0.0F;
    finite[static_cast<size_t>(row)] = static_cast<char>(sum == 0.0F);
  });
  return std::ranges::all_of(finite, [](char f) { return f != 0; });
}

void SetZero(MatrixView matrix) {
  for (int64_t r = 0; r < matrix.rows(); ++r) std::ranges::fill(matrix.Row(r), 0.0F);
}

}  // namespace

ChainLoss::ChainLoss(std::shared_ptr<const ChainData> data, const ChainLossOptions& options)
    : data_(std::move(data)),
      options_(options),
      numerator_options_{options.tolerance, data_->step},
      terms_{static_cast<float>(options.leak), OutputTerms{}.limit, static_cast<float>(options.output_l2),
             static_cast<float>(options.out_of_range)},
      pdfs_(data_->model),
      passes_(data_->denominator) {}

void ChainLoss::MakeNumerator(const ChainChunk& chunk, int64_t num_outputs, Lane* lane) const {
  if (chunk.times.num_outputs == 0) return;
  if (!chunk.utterance) {
    lane->problem = "nothing is known of what was said in it";
  } else if (chunk.times.num_outputs > num_outputs) {
    Throw<ShapeError>("a chunk has {} outputs, the network gave {}", chunk.times.num_outputs, num_outputs);
  } else {
    lane->numerator.emplace(data_->denominator, pdfs_, data_->references[*chunk.utterance], chunk.times,
                            numerator_options_);
    lane->problem = lane->numerator->problem();
  }
}

ChainResult ChainLoss::Compute(std::span<const ChainChunk> chunks, ConstMatrixView outputs, MatrixView derivative,
                               std::optional<double> total_weight) {
  const auto num_chunks = static_cast<int64_t>(chunks.size());
  const bool whole = num_chunks > 0 ? outputs.rows() % num_chunks == 0 : outputs.rows() == 0;
  const bool same = derivative.empty() || (derivative.rows() == outputs.rows() && derivative.cols() == outputs.cols());
  if (!whole || !same || (num_chunks > 0 && outputs.cols() != data_->denominator.num_pdfs())) {
    Throw<ShapeError>("outputs [{}, {}] do not go with {} chunks of {} pdf-ids", outputs.rows(), outputs.cols(),
                      num_chunks, data_->denominator.num_pdfs());
  }
  ChainResult result;
  posteriors_.begin.assign(static_cast<size_t>(outputs.rows()) + 1, 0);
  posteriors_.shares.clear();
  if (num_chunks == 0) return result;
  const int64_t num_outputs = outputs.rows() / num_chunks;
  const bool finite = AllFinite(outputs);

  std::vector<Lane> lanes(chunks.size());
  ParallelPieces(num_chunks, [&](int64_t b, int) {
    Lane& lane = lanes[static_cast<size_t>(b)];
    MakeNumerator(chunks[static_cast<size_t>(b)], num_outputs, &lane);
    if (!lane.numerator || !lane.problem.empty() || !finite) return;
    const auto limit = static_cast<double>(terms_.limit);
    const auto score = [&](int t, int32_t pdf) {
      return std::clamp(static_cast<double>(outputs(t * num_chunks + b, pdf)), -limit, limit);
    };
    lane.log_numerator = lane.numerator->ForwardBackward(score, &lane.occupancies);
  });
  for (size_t b = 0; b < chunks.size(); ++b) {
    if (!lanes[b].problem.empty()) {
      NoteLeftOut(chunks[b], lanes[b].problem);
      ++result.left_out;
      continue;
    }
    result.weight_sum += static_cast<double>(chunks[b].weight) * chunks[b].times.num_outputs;
  }
  if (!finite) {
    if (!derivative.empty()) SetZero(derivative);
    result.loss_sum = result.objective_sum = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  GatherPosteriors(chunks, lanes, outputs.rows());
  result.correct_sum = CountCorrect(outputs);  // before the derivative may take their place

  const double total = total_weight.value_or(result.weight_sum);
  const int64_t blocks = (num_chunks + kLanes - 1) / kLanes;
  std::vector<DenominatorPasses::Sums> sums(static_cast<size_t>(blocks) * kLanes);
  scratch_.resize(std::max(scratch_.size(), static_cast<size_t>(ComputeThreads())));
  ParallelPieces(blocks, [&](int64_t block, int thread) {
    DenominatorPasses::Lanes block_lanes;
    block_lanes.first_row = block * kLanes;
    block_lanes.rows_per_output = num_chunks;
    const int64_t end = std::min<int64_t>(num_chunks, (block + 1) * kLanes);
    for (int64_t b = block * kLanes; b < end; ++b) {
      const auto l = static_cast<size_t>(b - block * kLanes);
      const ChainChunk& chunk = chunks[static_cast<size_t>(b)];
      const bool counts = lanes[static_cast<size_t>(b)].problem.empty();
      block_lanes.outputs[l] = counts ? chunk.times.num_outputs : 0;
      block_lanes.scale[l] = total > 0 ? static_cast<float>(static_cast<double>(chunk.weight) / total) : 0.0F;
    }
    const auto block_sums =
        passes_.Run(outputs, block_lanes, terms_, derivative, &scratch_[static_cast<size_t>(thread)]);
    std::ranges::copy(block_sums, sums.begin() + block * kLanes);
    for (int64_t b = block * kLanes; b < end; ++b) {
      const auto l = static_cast<size_t>(b - block * kLanes);
      for (int64_t t = block_lanes.outputs[l]; !derivative.empty() && t < num_outputs; ++t) {
        std::ranges::fill(derivative.Row(t * num_chunks + b), 0.0F);
      }
      for (const Occupancy& o : lanes[static_cast<size_t>(b)].occupancies) {
        const int64_t row = o.output * num_chunks + b;
        if (!derivative.empty()) derivative(row, o.pdf_id) -= block_lanes.scale[l] * o.value;
      }
    }
  });
  for (size_t b = 0; b < chunks.size(); ++b) {
    if (!lanes[b].problem.empty()) continue;
    const auto weight = static_cast<double>(chunks[b].weight);
    const double objective = lanes[b].log_numerator - sums[b].log_sum;
    result.objective_sum += weight * objective;
    result.loss_sum += weight * (0.5 * options_.output_l2 * sums[b].squares +
                                 0.5 * options_.out_of_range * sums[b].excess - objective);
  }
  return result;
}

double ChainLoss::CountCorrect(ConstMatrixView outputs) const {
  std::vector<double> correct(static_cast<size_t>(outputs.rows()), 0);
  ParallelItems(outputs.rows(), outputs.size(), [&](int64_t r) {
    const auto shares = posteriors_.Of(static_cast<size_t>(r));
    if (shares.empty()) return;
    const auto row = outputs.Row(r);
    const float largest = *std::ranges::max_element(row);
    for (const auto& [pdf_id, share] : shares) {
      if (row[static_cast<size_t>(pdf_id)] == largest) correct[static_cast<size_t>(r)] += static_cast<double>(share);
    }
  });
  return std::accumulate(correct.begin(), correct.end(), 0.0);
}

void ChainLoss::GatherPosteriors(std::span<const ChainChunk> chunks, std::span<const Lane> lanes, int64_t rows) {
  std::vector<std::span<const Occupancy>> left;  // by lane, those of later outputs
  for (const Lane& lane : lanes) left.emplace_back(lane.occupancies);
  for (int64_t row = 0; row < rows; ++row) {
    const size_t b = static_cast<size_t>(row) % lanes.size();
    const auto output = static_cast<int32_t>(row / std::ssize(lanes));
    while (!left[b].empty() && left[b].front().output == output) {
      posteriors_.shares.push_back({left[b].front().pdf_id, chunks[b].weight * left[b].front().value});
      left[b] = left[b].subspan(1);
    }
    posteriors_.begin[static_cast<size_t>(row) + 1] = posteriors_.shares.size();
  }
}

nn::LossResult ChainLoss::Compute(ConstMatrixView outputs, const nn::LossTargets& targets, MatrixView derivative) {
  const ChainResult result = Compute(chunks_, outputs, derivative, targets.total_weight);
  return {result.loss_sum, result.weight_sum, result.correct_sum};
}

void ChainLoss::NoteLeftOut(const ChainChunk& chunk, const std::string& problem) {
  data_->left_out->Note(chunk.utterance ? data_->references.Id(*chunk.utterance) : "?", problem);
}

}  // namespace antiphon::chain
