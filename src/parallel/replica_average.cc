#include "parallel/replica_average.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/elementwise.h"

namespace antiphon::parallel {
namespace {

MatrixView AsRow(std::span<float> values) { return {values.data(), 1, static_cast<int64_t>(values.size())}; }

}  // namespace

double DistanceBetween(std::span<const float> a, std::span<const float> b) {
  double total = 0;
  const auto size = static_cast<int64_t>(a.size());
  constexpr int64_t kBlock = 4096;  // sums in fp32 within a block, in double across
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t last = std::min(size, first + kBlock);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = first; i < last; ++i) {
      const float d = a[static_cast<size_t>(i)] - b[static_cast<size_t>(i)];
      sum += d * d;
    }
    total += static_cast<double>(sum);
  }
  return std::sqrt(total);
}

std::vector<Standing> GatherStandings(comm::Communicator& comm, const Standing& mine) {
  const std::vector<std::byte> bytes = comm.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::vector<Standing> all(static_cast<size_t>(comm.world_size()));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

// A replica that did not move is no measure of how far one may.
AverageReport JudgeReplicas(const std::vector<Standing>& all, double outlier_factor) {
  std::vector<double> distances;
  for (const Standing& s : all) {
    if (s.usable != 0 && std::isfinite(s.distance) && s.weight > 0) distances.push_back(s.distance);
  }
  double limit = std::numeric_limits<double>::infinity();
  if (outlier_factor > 0 && distances.size() >= 3) {
    const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
    std::nth_element(distances.begin(), middle, distances.end());
    limit = outlier_factor * *middle;
  }
  AverageReport report;
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].usable == 0 || !(all[r].distance <= limit) || !std::isfinite(all[r].distance)) {
      report.left_out.push_back(static_cast<int>(r));
    }
  }
  report.hopeless = 2 * report.left_out.size() > all.size();
  return report;
}

AverageReport AverageReplicas(comm::Communicator& comm, double frame_weight, bool usable, double outlier_factor,
                              std::span<const float> start, std::span<float> values) {
  if (comm.world_size() == 1) return {{}, frame_weight, false};
  std::vector<Standing> all = GatherStandings(comm, {frame_weight, DistanceBetween(values, start), usable ? 1.0 : 0.0});
  AverageReport report = JudgeReplicas(all, outlier_factor);
  if (!report.hopeless) {
    for (const int r : report.left_out) all[static_cast<size_t>(r)].weight = 0;
  }
  for (const Standing& s : all) report.frame_weight += s.weight;
  if (!(report.frame_weight > 0)) {
    for (Standing& s : all) s.weight = 1;
    if (!report.hopeless) {
      for (const int r : report.left_out) all[static_cast<size_t>(r)].weight = 0;
    }
  }
  double total = 0;
  size_t counted = 0;
  for (const Standing& s : all) {
    total += s.weight;
    counted += s.weight > 0 ? 1 : 0;
  }
  // Exactly 1 for equal weights, so that equal replicas give their own bits back.
  const auto share =
      static_cast<float>(all[static_cast<size_t>(comm.rank())].weight * static_cast<double>(counted) / total);
  if (share == 0) {
    std::fill(values.begin(), values.end(), 0.0f);  // not scaled: 0 · NaN would stay
  } else if (share != 1) {
    Scale(share, AsRow(values), AsRow(values));
  }
  comm.AllReduce(values);
  if (counted > 1) Scale(1.0f / static_cast<float>(counted), AsRow(values), AsRow(values));
  return report;
}

}  // namespace antiphon::parallel
