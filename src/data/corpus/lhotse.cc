#include "data/corpus/lhotse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "data/corpus/corpus_files.h"
#include "data/corpus/corpus_format.h"
#include "feat/audio.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// FOLDER with …recordings….jsonl(.gz) and …supervisions….jsonl(.gz), perhaps several pairs with a part in their names;
// or with …cuts….jsonl(.gz) alone, or that file: cuts of one recording each, with their supervisions in them.
class Lhotse : public CorpusFormat {
 public:
  Corpus Read(const fs::path& place, const std::string& part, std::vector<DataProblem>& problems) const override {
    Corpus corpus{FolderOf(place), {}};
    if (HasCutsAlone(place)) {
      ReadCuts(FindManifest(place, {"cuts", part, ".jsonl"}, "cuts.jsonl of lhotse"), corpus, problems);
    } else {
      ReadSupervisions(place, part, corpus, problems);
    }
    corpus.audio = AudioFolderOf(corpus.rows, corpus.audio);
    return corpus;
  }

 private:
  struct Source {
    std::string file;
    std::vector<int> channels;  // of the recording, in the file's order; empty: it does not say
  };
  struct Recorded {
    std::string id;
    std::vector<Source> sources;  // one or more; of meetings perhaps one per microphone
    double seconds = -1.0;
  };

  static bool HasCutsAlone(const fs::path& place) {
    std::error_code none;
    if (!fs::is_directory(place, none)) return fs::exists(place, none);
    bool has_cuts = false;
    for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
      const std::string name = entry.path().filename().string();
      if (name.find("supervisions") != std::string::npos) return false;
      has_cuts = has_cuts || (name.find("cuts") != std::string::npos && name.find(".jsonl") != std::string::npos);
    }
    return has_cuts;
  }

  static void ReadSupervisions(const fs::path& place, const std::string& part, Corpus& corpus,
                               std::vector<DataProblem>& problems) {
    std::map<std::string, Recorded> recordings;
    EachJsonLine(
        FindManifest(place, {"recordings", part, ".jsonl"}, "recordings.jsonl of lhotse"), problems,
        [&](const nlohmann::json& object, const std::string&) { recordings[object.at("id")] = RecordedOf(object); });
    EachJsonLine(FindManifest(place, {"supervisions", part, ".jsonl"}, "supervisions.jsonl of lhotse"), problems,
                 [&](const nlohmann::json& object, const std::string& where) {
                   const std::string id = object.at("recording_id");
                   const auto recording = recordings.find(id);
                   if (recording == recordings.end()) Throw<InputError>("there is no recording '{}'", id);
                   corpus.rows.push_back(RowOf(object, recording->second, 0.0, where));
                 });
  }

  static void ReadCuts(const fs::path& file, Corpus& corpus, std::vector<DataProblem>& problems) {
    EachJsonLine(file, problems, [&](const nlohmann::json& cut, const std::string& where) {
      if (cut.contains("tracks")) Throw<InputError>("a cut that mixes several has no recording of its own");
      const Recorded recording = RecordedOf(cut.at("recording"));
      std::vector<TranscriptRow> rows;
      for (const nlohmann::json& supervision : cut.at("supervisions")) {
        rows.push_back(RowOf(supervision, recording, cut.at("start"), where));
      }
      corpus.rows.insert(corpus.rows.end(), rows.begin(), rows.end());
    });
  }

  static Recorded RecordedOf(const nlohmann::json& object) {
    Recorded recording{object.at("id"), {}, object.value("duration", -1.0)};
    for (const nlohmann::json& source : object.at("sources")) {
      if (TextAt(source, {"type"}) != "file") Throw<InputError>("its source is no file");
      recording.sources.push_back({source.at("source"), IntsAt(source, "channels")});
    }
    if (recording.sources.empty()) Throw<InputError>("it has no source");
    return recording;
  }

  // That which holds all of the channels.
  static const Source& SourceOf(const nlohmann::json& supervision, const std::vector<int>& channels,
                                const Recorded& recording) {
    const std::vector<Source>& sources = recording.sources;
    // A party of a call in a file of its own keeps the channel that it had in the call.
    if (sources.size() == 1 && (channels.empty() || sources[0].channels.size() <= 1)) return sources[0];
    const auto holds_all = [&](const Source& source) {
      return std::ranges::all_of(channels, [&](int c) { return std::ranges::count(source.channels, c) > 0; });
    };
    const auto found = channels.empty() ? sources.end() : std::ranges::find_if(sources, holds_all);
    if (found != sources.end()) return *found;
    std::string held;
    for (const Source& source : sources) {
      held += fmt::format("{}'{}' [{}]", held.empty() ? "" : ", ", source.file, fmt::join(source.channels, ", "));
    }
    Throw<InputError>(
        "supervision '{}' is of channel [{}] of recording '{}', but no source of it holds that: {}; name channels of "
        "one source",
        TextAt(supervision, {"id"}), fmt::join(channels, ", "), recording.id, held);
  }

  // `offset_s`: in the recording, of what the supervision's start counts from.
  static TranscriptRow RowOf(const nlohmann::json& object, const Recorded& recording, double offset_s,
                             const std::string& where) {
    TranscriptRow row;
    row.where = where;
    row.id = object.at("id");
    const std::vector<int> channels = IntsAt(object, "channel");
    const Source& source = SourceOf(object, channels, recording);
    row.file = source.file;
    row.text = TextAt(object, {"text"});
    row.speaker = TextAt(object, {"speaker"});
    row.gender = TextAt(object, {"gender"});
    const double start_s = offset_s + object.value("start", 0.0);
    const double seconds = object.at("duration");
    row.start_s = std::max(0.0, start_s);
    row.is_part = row.start_s > 0.0 || seconds < recording.seconds - 0.01 || source.channels.size() > 1;
    if (row.is_part) row.end_s = std::max(0.0, start_s + seconds);
    // Of several, the mean of all that the source has.
    if (source.channels.size() > 1 && channels.size() == 1) {
      row.channel = std::to_string(std::ranges::find(source.channels, channels[0]) - source.channels.begin());
    }
    return row;
  }

  // A number, a list of them, or nothing.
  static std::vector<int> IntsAt(const nlohmann::json& object, const char* key) {
    if (!object.contains(key) || object.at(key).is_null()) return {};
    const nlohmann::json& value = object.at(key);
    return value.is_array() ? value.get<std::vector<int>>() : std::vector<int>{value.get<int>()};
  }
};

REGISTER_CORPUS_FORMAT("lhotse", Lhotse);

nlohmann::ordered_json AllChannels(int count) {
  auto channels = nlohmann::ordered_json::array();
  for (int c = 0; c < count; ++c) channels.push_back(c);
  return channels;
}

// A number, or the list of all whose mean is meant.
nlohmann::ordered_json ChannelOf(const Utterance& u, int count) {
  if (u.channel < 0 && count > 1) return AllChannels(count);
  return std::max(u.channel, 0);
}

}  // namespace

void WriteLhotse(const DataDir& dir, const fs::path& folder) {
  std::string recordings, supervisions;
  std::vector<feat::AudioInfo> heads;
  for (const Recording& recording : dir.recordings()) {
    const fs::path audio = dir.ResolveAudio(recording);
    if (audio.empty()) Throw<InputError>("recording '{}' is a command; lhotse wants a file", recording.id);
    heads.push_back(feat::ProbeAudio(audio));
    const feat::AudioInfo& head = heads.back();
    const nlohmann::ordered_json channels = AllChannels(head.num_channels);
    const auto source = nlohmann::ordered_json{
        {"type", "file"}, {"channels", channels}, {"source", fs::absolute(audio).lexically_normal().string()}};
    recordings += nlohmann::ordered_json{{"id", recording.id},
                                         {"sources", nlohmann::ordered_json::array({source})},
                                         {"sampling_rate", head.sample_rate_hz},
                                         {"num_samples", head.num_samples},
                                         {"duration", head.duration_s()},
                                         {"channel_ids", channels}}
                      .dump() +
                  "\n";
  }
  for (const Utterance& u : dir.utterances()) {
    const double end_s = u.end_s >= 0.0 ? u.end_s : heads[u.recording].duration_s();
    nlohmann::ordered_json object = {{"id", u.utt_id},
                                     {"recording_id", dir.recordings()[u.recording].id},
                                     {"start", u.start_s},
                                     {"duration", end_s - u.start_s},
                                     {"channel", ChannelOf(u, heads[u.recording].num_channels)},
                                     {"speaker", u.speaker}};
    if (u.has_transcript) object["text"] = fmt::format("{}", fmt::join(u.words, " "));
    if (const auto gender = dir.gender().find(u.speaker); gender != dir.gender().end()) {
      object["gender"] = gender->second;
    }
    supervisions += object.dump() + "\n";
  }
  MakeFolder(folder);
  WriteFileAtomically(folder / "recordings.jsonl", recordings);
  WriteFileAtomically(folder / "supervisions.jsonl", supervisions);
}

}  // namespace antiphon::data
