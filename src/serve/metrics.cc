#include "serve/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/check.h"

namespace antiphon::serve {
namespace {

struct Family {
  std::string_view name, type, help;
};

constexpr std::array kFamilies = {
    Family{"antiphon_streams", "gauge", "Live streams that are open."},
    Family{"antiphon_uploads", "gauge", "Recordings that are received or recognised."},
    Family{"antiphon_connections", "gauge", "Open connections."},
    Family{"antiphon_queue_streams", "gauge", "Streams whose speech waits for a thread."},
    Family{"antiphon_queue_delay_seconds", "gauge", "How long the speech that waits longest has waited."},
    Family{"antiphon_streams_total", "counter", "Streams and uploads that began, by interface."},
    Family{"antiphon_finished_total", "counter", "Streams and uploads that ended, by interface and how."},
    Family{"antiphon_refused_total", "counter", "Connections and requests that were refused, by reason."},
    Family{"antiphon_requests_total", "counter", "Answers over HTTP, by status."},
    Family{"antiphon_errors_total", "counter", "Errors, by kind."},
    Family{"antiphon_audio_seconds_total", "counter", "Seconds of speech that were recognised."},
    Family{"antiphon_compute_seconds_total", "counter",
           "Seconds of threads' work on it; over antiphon_audio_seconds_total: the real-time factor."},
    Family{"antiphon_reply_seconds", "histogram", "From a piece of speech that came to what it was answered with."},
    Family{"antiphon_final_seconds", "histogram", "From the end of a stream to its last result."},
    Family{"antiphon_reloads_total", "counter", "Times that the models were read anew, by how it went."},
    Family{"antiphon_models", "gauge", "Models that are served."},
    Family{"process_resident_memory_bytes", "gauge", "Memory that the process holds."},
};

constexpr std::array kBounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0};

const Family& FamilyOf(std::string_view name) {
  const auto* found =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) { return family.name == name; });
  CHECK(found != kFamilies.end()) << "no metric '" << name << "'";
  return *found;
}

std::string Braces(const std::string& labels) { return labels.empty() ? "" : "{" + labels + "}"; }

}  // namespace

void Metrics::Add(std::string_view name, std::string_view labels, double by) {
  FamilyOf(name);
  const std::lock_guard lock(mutex_);
  values_[{std::string(name), std::string(labels)}] += by;
}

void Metrics::Set(std::string_view name, std::string_view labels, double value) {
  FamilyOf(name);
  const std::lock_guard lock(mutex_);
  values_[{std::string(name), std::string(labels)}] = value;
}

void Metrics::Observe(std::string_view name, double seconds) {
  FamilyOf(name);
  const std::lock_guard lock(mutex_);
  Histogram& histogram = histograms_[std::string(name)];
  histogram.counts.resize(kBounds.size() + 1);
  const auto bin = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++histogram.counts[static_cast<size_t>(bin)];
  ++histogram.count;
  histogram.sum += seconds;
}

double Metrics::Value(std::string_view name, std::string_view labels) const {
  FamilyOf(name);
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(std::pair(std::string(name), std::string(labels)));
  return found == values_.end() ? 0.0 : found->second;
}

std::string Metrics::Text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Family& family : kFamilies) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, family.help, family.name, family.type);
    for (const auto& [key, value] : values_) {
      if (key.first == family.name) text += fmt::format("{}{} {}\n", key.first, Braces(key.second), value);
    }
    const auto histogram = histograms_.find(family.name);
    if (histogram == histograms_.end()) continue;
    int64_t so_far = 0;
    for (size_t i = 0; i < kBounds.size(); ++i) {
      so_far += histogram->second.counts[i];
      text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", family.name, kBounds.at(i), so_far);
    }
    text += fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", family.name,
                        histogram->second.count, histogram->second.sum);
  }
  return text;
}

int64_t ResidentMemoryBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace antiphon::serve
