// Corpora that are a table with named columns beside a folder of audio.
//
// common-voice: FOLDER with validated.tsv (or PART.tsv) and clips/. audiofolder (Hugging Face): metadata.csv or
// metadata.jsonl with "file_name" and "transcription" or "text", in the folder of a part. ljspeech: metadata.csv,
// ID|AS WRITTEN|AS SPOKEN, and wavs/; one speaker.
// Sources: Common Voice, "Dataset" page; Hugging Face datasets, "Create an audio dataset"; LJSpeech 1.1, README.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"
#include "data/transcript_table.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

class CommonVoice : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    const std::string name = (part.empty() ? "validated" : part) + ".tsv";
    const fs::path table = TableIn(place, name);
    return {Below(FolderOf(table), "clips"), ReadTranscriptTable(table, "tab", problems)};
  }

 private:
  // A release holds invalidated.tsv, too, so that the whole name counts.
  static fs::path TableIn(const fs::path& place, const std::string& name) {
    std::error_code none;
    if (!fs::is_directory(place, none)) return FindManifest(place, {name}, name);
    if (!fs::is_regular_file(place / name, none)) Throw<InputError>("'{}' holds no {}", place.string(), name);
    return place / name;
  }
};

class AudioFolder : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    const fs::path table = FindManifest(Below(place, part), {"metadata."}, "metadata.csv or metadata.jsonl");
    Corpus corpus{FolderOf(table), {}};
    if (table.extension() != ".jsonl") {
      corpus.rows = ReadTranscriptTable(table, "auto", problems);
      return corpus;
    }
    EachJsonLine(table, problems, [&](const nlohmann::json& object, const std::string& where) {
      TranscriptRow row;
      row.where = where;
      row.file = object.at("file_name");
      row.text = TextAt(object, {"transcription", "text", "transcript", "sentence"});
      row.speaker = TextAt(object, {"speaker_id", "speaker"});
      row.gender = TextAt(object, {"gender"});
      corpus.rows.push_back(std::move(row));
    });
    return corpus;
  }
};

class LjSpeech : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string&, std::vector<DataProblem>& problems) const override {
    const fs::path table = FindManifest(place, {"metadata.csv"}, "metadata.csv");
    Corpus corpus{Below(FolderOf(table), "wavs"), {}};
    const std::string speaker = fs::absolute(FolderOf(table)).lexically_normal().filename().string();
    EachLine(table, [&](std::string_view line, const std::string& where) {
      const auto parsed = ParseSeparatedValues(line, '|', /*quotes=*/false, where);
      if (parsed.empty() || parsed[0].fields.size() < 2) {
        problems.push_back({where, "expected ID|TEXT or ID|TEXT|AS SPOKEN; the line is left out", false});
        return;
      }
      const auto& fields = parsed[0].fields;
      TranscriptRow row;
      row.where = where;
      row.file = row.id = fields[0];
      row.text = fields.size() > 2 && !fields[2].empty() ? fields[2] : fields[1];
      row.speaker = speaker;
      corpus.rows.push_back(std::move(row));
    });
    return corpus;
  }
};

REGISTER_CORPUS_FORMAT("common-voice", CommonVoice);
REGISTER_CORPUS_FORMAT("audiofolder", AudioFolder);
REGISTER_CORPUS_FORMAT("ljspeech", LjSpeech);

}  // namespace
}  // namespace antiphon::data
