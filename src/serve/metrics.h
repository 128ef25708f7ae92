// What /metrics tells: counts, levels and delays, in the text format of Prometheus (version 0.0.4).
//
//   metrics.Add("antiphon_refused_total", R"(reason="streams")");
//   metrics.Observe("antiphon_reply_seconds", 0.012);
//
// Which there are, with type and help, stands in one table (metrics.cc); another name is a bug (InternalError).
// Threads: safe together.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::serve {

class Metrics {
 public:
  /// `labels`: as they stand between the braces; made of the program's own words, never of a client's.
  void Add(std::string_view name, std::string_view labels = "", double by = 1.0);
  void Set(std::string_view name, std::string_view labels, double value);
  void Observe(std::string_view name, double seconds);
  double Value(std::string_view name, std::string_view labels = "") const;
  std::string Text() const;

 private:
  struct Histogram {
    std::vector<int64_t> counts;  // per bound, one more for all beyond
    int64_t count = 0;
    double sum = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, double, std::less<>> values_;
  std::map<std::string, Histogram, std::less<>> histograms_;
};

/// Bytes that the process holds in memory now.
int64_t ResidentMemoryBytes();

}  // namespace antiphon::serve
