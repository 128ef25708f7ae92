// What a worker's time goes into, as metrics.jsonl names it: lists by rank in the records of epochs.
#pragma once

#include <array>
#include <string>

namespace antiphon::report {

inline constexpr std::array<const char*, 5> kRankTimes = {"arithmetic", "waiting", "exchange", "reading", "other"};

/// `time`: one of kRankTimes.
inline std::string RankTimeKey(const char* time) { return std::string("rank_") + time + "_seconds"; }

}  // namespace antiphon::report
