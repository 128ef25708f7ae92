// Corpora as others lay them out: where their audio is, and who says what in it.
//
//   const auto format = CorpusFormatRegistry::Get().Create("ljspeech");
//   const Corpus corpus = format->Read("LJSpeech-1.1", "", problems);
//   const DataDir dir = JoinTranscripts(corpus.audio, corpus.rows, "LJSpeech-1.1", options, problems);
//
// One file per format. Threads: one caller per object. Errors: IoError; InputError naming file and line where a
// manifest cannot be understood at all; entries that cannot be used are left out and reported in `problems`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/registry.h"
#include "data/transcript_rows.h"

namespace antiphon::data {

struct Corpus {
  std::filesystem::path audio;  // the folder below which the files lie
  std::vector<TranscriptRow> rows;
};

class CorpusFormat {
 public:
  virtual ~CorpusFormat() = default;

  /// What lies in `place`, a folder, or the manifest itself where the format has one. `part`: of the corpus ("train");
  /// empty: the only one, or all.
  virtual Corpus Read(const std::filesystem::path& place, const std::string& part,
                      std::vector<DataProblem>& problems) const = 0;
};

using CorpusFormatRegistry = Registry<CorpusFormat>;

}  // namespace antiphon::data

/// A type derived from CorpusFormat under the name that --from takes.
#define REGISTER_CORPUS_FORMAT(name, Type) \
  REGISTER_COMPONENT(::antiphon::data::CorpusFormatRegistry, name, [] { return std::make_unique<Type>(); })
