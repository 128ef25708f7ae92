// Checking a data directory: what reading it found, and what its audio files say.

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/audio_source.h"
#include "data/data_dir.h"

namespace antiphon::data {
namespace {

// How far a segment may reach past the end of its recording: rounding of times, and encoders that drop a block.
constexpr double kEndSlackS = 0.5;

}  // namespace

std::vector<DataProblem> DataDir::Validate(const std::filesystem::path& folder, const DataDirOptions& options,
                                           bool check_audio) {
  std::vector<DataProblem> problems;
  const DataDir dir = internal::ReadDataDir(folder, options, problems);
  const AudioSource audio(dir);
  std::vector<std::vector<DataProblem>> found(dir.recordings_.size());
  std::vector<double> lengths(dir.recordings_.size(), -1.0);
  ParallelFor(dir.recordings_.size(), 0, [&](size_t i) {
    const Recording& r = dir.recordings_[i];
    const std::string where = fmt::format("{}:{}", (folder / "wav.scp").string(), r.line);
    try {
      if (check_audio) {
        const feat::AudioInfo info = audio.Probe(r);
        lengths[i] = info.duration_s();
        if (info.num_samples == 0)
          found[i].push_back({where, fmt::format("recording '{}' holds no samples", r.id), false});
      } else {
        dir.ResolveAudio(r);
      }
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& e) {
      found[i].push_back({where, fmt::format("recording '{}': {}", r.id, e.message()), false});
    }
  });
  for (const auto& list : found) problems.insert(problems.end(), list.begin(), list.end());
  if (check_audio) {
    for (const Utterance& u : dir.utterances_) {
      const double length = lengths[u.recording];
      if (length < 0.0 || std::max(u.end_s - kEndSlackS, u.start_s) < length) continue;
      problems.push_back(
          {(folder / "segments").string(),
           fmt::format("utterance '{}' from {} s to {} s reaches past the end of recording '{}' ({:.3f} s)", u.utt_id,
                       u.start_s, u.end_s, dir.recordings_[u.recording].id, length),
           false});
    }
  }
  std::stable_sort(problems.begin(), problems.end(), [](const auto& a, const auto& b) { return a.fatal > b.fatal; });
  return problems;
}

}  // namespace antiphon::data
