// Manifests in JSON that name audio files by path.
//
// nemo: an object per line, "audio_filepath", "text", and perhaps "offset" and "duration", "speaker". espnet: one
// object, {"utts": {ID: {"utt2spk", "input": [{"feat": PATH, "filetype": "sound"}], "output": [{"text"}]}}}; of input
// that is no sound, an audio file named by the utterance is looked for. Audio lies beside the manifest or
// below, or where all paths, which are absolute then, say.
// Sources: NeMo, "ASR datasets"; ESPnet 1, utils/data2json.sh.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/gzip.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

class Nemo : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    const fs::path manifest = FindManifest(place, {part, ".json"}, "manifest (.json, .jsonl) of NeMo");
    Corpus corpus{FolderOf(manifest), {}};
    EachJsonLine(manifest, problems, [&](const nlohmann::json& object, const std::string& where) {
      TranscriptRow row;
      row.where = where;
      row.file = object.at("audio_filepath");
      row.text = object.at("text");
      row.speaker = TextAt(object, {"speaker"});
      row.gender = TextAt(object, {"gender"});
      if (const auto offset = object.find("offset"); offset != object.end() && !offset->is_null()) {
        row.is_part = row.has_times = true;
        row.start_s = *offset;
        const auto duration = object.find("duration");
        const double seconds = duration == object.end() || duration->is_null() ? -1.0 : duration->get<double>();
        if (seconds >= 0.0) row.end_s = row.start_s + seconds;
      }
      corpus.rows.push_back(std::move(row));
    });
    corpus.audio = AudioFolderOf(corpus.rows, corpus.audio);
    return corpus;
  }
};

class Espnet : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    const fs::path manifest = FindManifest(place, {part, ".json"}, "data.json of ESPnet");
    Corpus corpus{FolderOf(manifest), {}};
    const nlohmann::json utts = Utterances(manifest);
    for (const auto& [id, utt] : utts.items()) {
      const std::string where = fmt::format("{}: '{}'", manifest.string(), id);
      try {
        TranscriptRow row;
        row.where = where;
        row.id = id;
        const nlohmann::json& input = utt.at("input").at(0);
        row.file = TextAt(input, {"filetype"}) == "sound" ? input.at("feat").get<std::string>() : id;
        row.text = utt.at("output").at(0).at("text");
        row.speaker = TextAt(utt, {"utt2spk"});
        corpus.rows.push_back(std::move(row));
      } catch (const nlohmann::json::exception& e) {
        problems.push_back({where, fmt::format("not as expected: {}; it is left out", e.what()), false});
      }
    }
    corpus.audio = AudioFolderOf(corpus.rows, corpus.audio);
    return corpus;
  }

 private:
  static nlohmann::json Utterances(const fs::path& manifest) {
    try {
      return nlohmann::json::parse(ReadMaybeGzipped(manifest)).at("utts");
    } catch (const nlohmann::json::exception& e) {
      Throw<InputError>("'{}' is no data.json of ESPnet, an object with \"utts\": {}", manifest.string(), e.what());
    }
  }
};

REGISTER_CORPUS_FORMAT("nemo", Nemo);
REGISTER_CORPUS_FORMAT("espnet", Espnet);

}  // namespace
}  // namespace antiphon::data
