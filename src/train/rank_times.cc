#include "train/rank_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "report/rank_time_keys.h"

namespace antiphon::train {
namespace {

constexpr size_t kTimes = report::kRankTimes.size();

}  // namespace

RankTimes::RankTimes(comm::Communicator& comm)
    : comm_(comm), first_rank_(comm.rank()), waited_(comm.waited_seconds().size(), 0.0) {
  for (int r = 0; r < comm.world_size(); ++r) machines_.push_back(comm.Node(r));
}

void RankTimes::EndStep() {
  const std::vector<double> now = comm_.waited_seconds();
  for (size_t r = 0; r < now.size(); ++r) waited_[r] += now[r] - waited_before_[r];
}

void RankTimes::StartAt(const Position& position) {
  begin_ = position;
  waited_.assign(comm_.waited_seconds().size(), 0.0);
}

// Not every strategy counts all of its waiting as communication.
RankTimes::Times RankTimes::Since(const Position& position) const {
  const double communication = position.communication_seconds - begin_.communication_seconds;
  Times times;
  times.waiting = std::accumulate(waited_.begin(), waited_.end(), 0.0);
  times.exchange = std::max(0.0, communication - times.waiting);
  const double steps = position.arithmetic_seconds - begin_.arithmetic_seconds + communication;
  times.arithmetic = std::max(0.0, steps - times.waiting - times.exchange);
  // Simulated devices have their data at hand, and do nothing but learn.
  if (comm_.time_is_virtual()) return times;
  times.reading = position.data_seconds - begin_.data_seconds;
  times.other = position.other_seconds - begin_.other_seconds;
  return times;
}

std::vector<std::vector<double>> RankTimes::Gather(const Times& mine) const {
  std::vector<double> said = {mine.arithmetic, mine.waiting, mine.exchange, mine.reading, mine.other};
  said.insert(said.end(), waited_.begin(), waited_.end());
  const size_t size = said.size();
  said.push_back(first_rank_);
  std::vector<std::byte> bytes;
  comm_.Together([&] { bytes = comm_.AllGather(std::as_bytes(std::span<const double>(said))); });
  std::vector<std::vector<double>> all(machines_.size(), std::vector<double>(size, 0.0));
  for (size_t at = 0; at < bytes.size(); at += said.size() * sizeof(double)) {
    std::memcpy(said.data(), bytes.data() + at, said.size() * sizeof(double));
    std::copy_n(said.begin(), size, all[static_cast<size_t>(said.back())].begin());
  }
  return all;
}

void RankTimes::Tell(const Position& position, report::MetricsRecord& record, RunLog& log) {
  if (comm_.world_size() > 1) {
    const std::vector<std::vector<double>> all = Gather(Since(position));
    for (size_t k = 0; k < kTimes; ++k) {
      std::vector<double> of_ranks;
      for (const std::vector<double>& rank : all) of_ranks.push_back(rank[k]);
      record.Set(report::RankTimeKey(report::kRankTimes[k]), of_ranks);
      for (size_t r = 0; r < all.size(); ++r) {
        const double sum = std::accumulate(all[r].begin(), all[r].begin() + kTimes, 0.0);
        if (sum > 0) log.Scalar(fmt::format("rank_{}/{}", r, report::kRankTimes[k]), position.step, of_ranks[r] / sum);
      }
    }
    std::vector<double> awaited(waited_.size(), 0.0);
    std::vector<double> longest = {0, 0, 0};  // who waited, for whom, seconds
    for (size_t r = 0; r < all.size(); ++r) {
      for (size_t peer = 0; peer < awaited.size(); ++peer) {
        const double seconds = all[r][kTimes + peer];
        awaited[peer] += seconds;
        if (seconds > longest[2]) longest = {static_cast<double>(r), static_cast<double>(peer), seconds};
      }
    }
    record.Set("rank_awaited_seconds", awaited).Set("longest_wait", longest);
    record.Set("rank_machines", machines_);
  }
  StartAt(position);
}

}  // namespace antiphon::train
