#include "pipeline/audio_places.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "data/data_summary.h"
#include "data/recordings.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

bool IsDataDirectory(const fs::path& place) {
  const auto holds = [&](const char* name) { return fs::exists(place / name); };
  return holds("wav.scp") || holds("feats.scp") || holds("text") || holds("utt2spk");
}

void WriteDataDirectory(const fs::path& place, const std::string& transcripts, const AudioPlaceOptions& options,
                        const fs::path& out) {
  constexpr size_t kShown = 10;
  data::PrepareOptions prepare;
  prepare.channels = options.channels;
  std::vector<data::DataProblem> problems;
  const data::DataDir dir =
      transcripts.empty() ? data::DataDirOfRecordings(place, prepare, problems)
                          : data::WithDurations(data::PrepareDataDir(place, transcripts, prepare, problems), problems);
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) {
    log::Warn("{}: {}", problems[i].where, problems[i].what);
  }
  if (problems.size() > kShown) log::Warn("… and {} more problems", problems.size() - kShown);
  dir.Write(out);
  log::Info("'{}': {} utterances in {} audio files, in '{}'", place.string(), dir.utterances().size(),
            dir.recordings().size(), out.string());
}

}  // namespace

std::string DataDirectoryOf(const std::string& place, const std::string& transcripts, const AudioPlaceOptions& options,
                            const fs::path& out, Team& team) {
  if (!fs::exists(place)) Throw<InputError>("'{}' does not exist: expected a data directory, or audio", place);
  if (IsDataDirectory(place)) {
    if (options.channels == "each") {
      Throw<UsageError>(
          "'{}' is a data directory, whose segments say which channel is meant: make it with antiphon "
          "prepare --channels each",
          place);
    }
    if (!transcripts.empty()) Throw<UsageError>("'{}' is a data directory, which has transcripts of its own", place);
    return place;
  }
  const fs::path made = out / "data";
  if (team.is_first()) WriteDataDirectory(place, transcripts, options, made);
  team.Exchange("", Spread::kToAll);
  return made.string();
}

}  // namespace antiphon::pipeline
