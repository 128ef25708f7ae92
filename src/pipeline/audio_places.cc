#include "pipeline/audio_places.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "data/corpus/corpus_format.h"
#include "data/data_summary.h"
#include "data/recordings.h"
#include "data/transcript_table.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

bool IsDataDirectory(const fs::path& place) {
  const auto holds = [&](const char* name) { return fs::exists(place / name); };
  return holds("wav.scp") || holds("feats.scp") || holds("text") || holds("utt2spk");
}

// The audio with its words.
data::DataDir Transcribed(const fs::path& place, const AudioTexts& texts, const data::PrepareOptions& prepare,
                          std::vector<data::DataProblem>& problems) {
  data::Corpus corpus{place, {}};
  if (texts.table.empty()) {
    try {
      corpus = data::CorpusFormatRegistry::Get().Create("mfa")->Read(place, "", problems);
    } catch (const InputError& e) {
      Throw<UsageError>("{}; a table of texts is given with --transcripts", e.message());
    }
  } else {
    corpus.rows = data::ReadTranscriptTable(texts.table, prepare.separator, problems);
  }
  for (data::TranscriptRow& row : corpus.rows) {
    // What is no UTF-8 is refused with its row.
    if (texts.spelling && FindBadUtf8(row.text) == std::string::npos) row.text = texts.spelling(row.text);
  }
  const std::string source = texts.table.empty() ? place.string() : texts.table;
  return data::WithDurations(data::JoinTranscripts(corpus.audio, corpus.rows, source, prepare, problems), problems);
}

void WriteDataDirectory(const fs::path& place, const AudioTexts& texts, const AudioPlaceOptions& options,
                        const fs::path& out, std::vector<data::DataProblem>& problems) {
  data::PrepareOptions prepare;
  prepare.channels = options.channels;
  const data::DataDir dir = texts.table.empty() && !texts.beside ? data::DataDirOfRecordings(place, prepare, problems)
                                                                 : Transcribed(place, texts, prepare, problems);
  dir.Write(out);
  log::Info("'{}': {} utterances in {} audio files, in '{}'", place.string(), dir.utterances().size(),
            dir.recordings().size(), out.string());
}

}  // namespace

std::string DataDirectoryOf(const std::string& place, const AudioTexts& texts, const AudioPlaceOptions& options,
                            const fs::path& out, Team& team, std::vector<data::DataProblem>* problems) {
  if (!fs::exists(place)) Throw<InputError>("'{}' does not exist: expected a data directory, or audio", place);
  if (IsDataDirectory(place)) {
    if (options.channels == "each") {
      Throw<UsageError>(
          "'{}' is a data directory, whose segments say which channel is meant: make it with antiphon "
          "prepare --channels each",
          place);
    }
    if (!texts.table.empty()) Throw<UsageError>("'{}' is a data directory, which has transcripts of its own", place);
    return place;
  }
  const fs::path made = out / "data";
  if (team.is_first()) {
    std::vector<data::DataProblem> own;
    WriteDataDirectory(place, texts, options, made, problems == nullptr ? own : *problems);
    WarnOf(own);
  }
  team.Exchange("", Spread::kToAll);
  return made.string();
}

void WarnOf(const std::vector<data::DataProblem>& problems) {
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) {
    log::Warn("{}: {}", problems[i].where, problems[i].what);
  }
  if (problems.size() > kShown) log::Warn("… and {} more problems", problems.size() - kShown);
}

}  // namespace antiphon::pipeline
