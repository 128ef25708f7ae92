#include "data/sample_rate.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "base/thread_pool.h"

namespace antiphon::data {
namespace {

// Seconds of the recordings by their rates. What cannot be opened says so later, with its utterance.
std::map<int, double> SecondsByRate(const DataDir& dir, const AudioSource& audio, int num_threads) {
  std::map<int, double> seconds;
  ParallelInOrder<feat::AudioInfo>(
      dir.recordings().size(), num_threads,
      [&](size_t i) {
        try {
          return audio.Probe(dir.recordings()[i]);
        } catch (const Cancelled&) {
          throw;
        } catch (const Error&) {
          return feat::AudioInfo{};
        }
      },
      [&](size_t, feat::AudioInfo&& info) {
        if (info.sample_rate_hz > 0) seconds[info.sample_rate_hz] += info.duration_s();
      });
  if (seconds.empty())
    Throw<InputError>("none of the {} recordings of '{}' can be read as audio; 'antiphon prepare' says why",
                      dir.recordings().size(), dir.folder().string());
  return seconds;
}

}  // namespace

int RateOfData(const DataDir& dir, const AudioSource& audio, bool usual, int num_threads) {
  constexpr int kHighestUsualHz = 16000, kWholeHz = 1000;
  const std::map<int, double> seconds = SecondsByRate(dir, audio, num_threads);
  if (!usual) return seconds.begin()->first;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const int most = std::max_element(seconds.begin(), seconds.end(), less)->first;
  const int rate = std::min(kHighestUsualHz, most / kWholeHz * kWholeHz);
  log::Info("features are computed at {} Hz; most of the speech has {} Hz", rate, most);
  return rate;
}

}  // namespace antiphon::data
