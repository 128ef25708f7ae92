// Reading and checking a data directory: one pass that joins the files and collects every problem on its way.

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "data/data_dir.h"
#include "data/text_table.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr double kMostChannels = 1024;

std::string Join(std::set<std::string> names) {
  constexpr size_t kShown = 5;
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (shown++ == kShown) return text + fmt::format(", … ({} in all)", names.size());
    text += (text.empty() ? "'" : ", '") + name + "'";
  }
  return text;
}

// Collects names that share a problem, so that a thousand missing transcripts are one line.
struct NameCollector {
  std::set<std::string> names;
  void Report(const fs::path& where, std::string_view what, std::vector<DataProblem>& problems,
              bool fatal = false) const {
    if (!names.empty()) {
      problems.push_back({where.string(), fmt::format("{} {}: {}", names.size(), what, Join(names)), fatal});
    }
  }
};

std::unordered_map<std::string, TextLine> ByKey(std::vector<TextLine> lines) {
  std::unordered_map<std::string, TextLine> map;
  for (TextLine& line : lines) map.emplace(line.key, std::move(line));
  return map;
}

std::vector<TextLine> ReadIfThere(const fs::path& path, std::vector<DataProblem>& problems) {
  std::error_code ignored;
  return fs::exists(path, ignored) ? ReadTextTable(path, problems) : std::vector<TextLine>{};
}

// One line of `segments`; nullopt (and a problem) if it is broken.
struct Segment {
  std::string recording;
  double start_s = 0.0;
  double end_s = -1.0;
  int channel = -1;
};
std::optional<Segment> ParseSegment(const TextLine& line, const std::string& where,
                                    std::vector<DataProblem>& problems) {
  const std::vector<std::string> fields = SplitWords(line.rest);
  Segment s;
  double channel = -1.0;
  const bool has_channel = fields.size() == 4;
  if ((fields.size() != 3 && !has_channel) || !ParseReal(fields[1], s.start_s) || !ParseReal(fields[2], s.end_s) ||
      (has_channel &&
       (!ParseReal(fields[3], channel) || channel != std::floor(channel) || channel < 0 || channel > kMostChannels))) {
    problems.push_back({where,
                        fmt::format("expected UTTERANCE RECORDING START END (seconds), perhaps a CHANNEL (from 0), "
                                    "found '{} {}'",
                                    line.key, line.rest),
                        true});
    return std::nullopt;
  }
  s.channel = static_cast<int>(channel);
  s.recording = fields[0];
  if (s.start_s < 0.0 || (s.end_s != -1.0 && s.end_s <= s.start_s)) {
    problems.push_back(
        {where, fmt::format("the segment from {} s to {} s is empty or begins before 0", s.start_s, s.end_s), true});
    return std::nullopt;
  }
  return s;
}

std::string At(const fs::path& path, const TextLine& line) { return fmt::format("{}:{}", path.string(), line.line); }

void CheckIds(const fs::path& path, const std::vector<TextLine>& lines, const std::set<std::string>& known,
              std::string_view what, std::vector<DataProblem>& problems) {
  NameCollector unknown;
  for (const TextLine& line : lines) {
    if (known.count(line.key) == 0) unknown.names.insert(line.key);
  }
  unknown.Report(path, what, problems);
}

// Speaker of each utterance, from utt2spk, else from spk2utt.
std::unordered_map<std::string, std::string> ReadSpeakers(const fs::path& folder, std::vector<DataProblem>& problems) {
  std::unordered_map<std::string, std::string> inverse;
  for (const TextLine& line : ReadIfThere(folder / "spk2utt", problems)) {
    for (const std::string& utt : SplitWords(line.rest)) inverse.emplace(utt, line.key);
  }
  std::error_code ignored;
  if (!fs::exists(folder / "utt2spk", ignored)) {
    if (inverse.empty()) {
      problems.push_back({(folder / "utt2spk").string(),
                          "there is neither utt2spk nor spk2utt; every utterance counts as a speaker of its own",
                          false});
    }
    return inverse;
  }
  std::unordered_map<std::string, std::string> speakers;
  NameCollector differ;
  for (const TextLine& line : ReadTextTable(folder / "utt2spk", problems)) {
    if (SplitWords(line.rest).size() != 1) {
      problems.push_back({At(folder / "utt2spk", line),
                          fmt::format("expected UTTERANCE SPEAKER, found '{} {}'", line.key, line.rest), true});
      continue;
    }
    const auto it = inverse.find(line.key);
    if (!inverse.empty() && (it == inverse.end() || it->second != line.rest)) differ.names.insert(line.key);
    speakers.emplace(line.key, line.rest);
  }
  differ.Report(folder / "spk2utt", "utterances whose speaker differs from utt2spk, which holds", problems);
  return speakers;
}

}  // namespace

DataDir internal::ReadDataDir(const fs::path& folder, const DataDirOptions& options,
                              std::vector<DataProblem>& problems) {
  DataDir dir;
  dir.folder_ = folder;
  dir.options_ = options;
  std::error_code ignored;
  if (!fs::exists(folder / "wav.scp", ignored)) {
    problems.push_back(
        {folder.string(),
         fs::is_directory(folder, ignored) ? "there is no wav.scp: this is no data directory" : "no such folder",
         true});
    return dir;
  }
  std::unordered_map<std::string, size_t> recording_index;
  for (TextLine& line : ReadTextTable(folder / "wav.scp", problems)) {
    if (line.rest.empty())
      problems.push_back({At(folder / "wav.scp", line), "expected RECORDING PATH, the path is missing", true});
    if (line.rest.ends_with('|') && !options.allow_commands) {
      problems.push_back({At(folder / "wav.scp", line),
                          fmt::format("recording '{}' is made by a command; commands are executed only "
                                      "with --allow-commands, for files that you trust",
                                      line.key),
                          true});
    }
    recording_index.emplace(line.key, dir.recordings_.size());
    dir.recordings_.push_back({line.key, line.rest, line.line});
  }

  dir.has_segments_ = fs::exists(folder / "segments", ignored);
  const bool has_text = fs::exists(folder / "text", ignored);
  if (!has_text)
    problems.push_back({(folder / "text").string(), "there are no transcripts; enough for decoding only", false});
  const std::vector<TextLine> text_lines = ReadIfThere(folder / "text", problems);
  const auto text = ByKey(text_lines);
  const auto speakers = ReadSpeakers(folder, problems);
  const std::vector<TextLine> duration_lines = ReadIfThere(folder / "utt2dur", problems);
  const auto durations = ByKey(duration_lines);

  NameCollector no_speaker, no_text, empty_text;
  std::set<std::string> ids;
  const auto add = [&](const std::string& id, Utterance u) {
    ids.insert(id);
    u.utt_id = id;
    if (const auto it = speakers.find(id); it != speakers.end()) {
      u.speaker = it->second;
    } else {
      if (!speakers.empty()) no_speaker.names.insert(id);
      u.speaker = id;
    }
    if (const auto it = text.find(id); it != text.end()) {
      u.has_transcript = true;
      u.words = SplitWords(ComposeUtf8(it->second.rest));
      if (u.words.empty()) empty_text.names.insert(id);
    } else if (has_text) {
      no_text.names.insert(id);
    }
    if (const auto it = durations.find(id); it != durations.end()) {
      if (!ParseReal(it->second.rest, u.duration_s) || u.duration_s <= 0.0) {
        problems.push_back({At(folder / "utt2dur", it->second), "expected UTTERANCE SECONDS", true});
      }
    } else if (u.end_s >= 0.0) {
      u.duration_s = u.end_s - u.start_s;
    }
    dir.utterances_.push_back(std::move(u));
  };

  if (dir.has_segments_) {
    const fs::path path = folder / "segments";
    NameCollector unknown;
    for (const TextLine& line : ReadTextTable(path, problems)) {
      const auto segment = ParseSegment(line, At(path, line), problems);
      if (!segment) continue;
      const auto it = recording_index.find(segment->recording);
      if (it == recording_index.end()) {
        unknown.names.insert(line.key + " (" + segment->recording + ")");
        continue;
      }
      Utterance u;
      u.recording = it->second;
      u.start_s = segment->start_s;
      u.end_s = segment->end_s;
      u.channel = segment->channel;
      add(line.key, std::move(u));
    }
    unknown.Report(path, "segments left out, because wav.scp does not have their recording", problems);
  } else {
    for (size_t i = 0; i < dir.recordings_.size(); ++i) {
      Utterance u;
      u.recording = i;
      add(dir.recordings_[i].id, std::move(u));
    }
  }
  std::sort(dir.utterances_.begin(), dir.utterances_.end(),
            [](const Utterance& a, const Utterance& b) { return a.utt_id < b.utt_id; });
  if (dir.utterances_.empty()) problems.push_back({folder.string(), "there is not one utterance", true});

  no_speaker.Report(folder / "utt2spk", "utterances without a speaker; each counts as one of its own", problems);
  no_text.Report(folder / "text", "utterances without a transcript; training leaves them out", problems);
  empty_text.Report(folder / "text", "utterances with an empty transcript", problems);
  CheckIds(folder / "text", text_lines, ids, "transcripts left out, because there is no such utterance with audio",
           problems);
  CheckIds(folder / "utt2dur", duration_lines, ids, "durations of utterances that do not exist", problems);

  const std::vector<TextLine> genders = ReadIfThere(folder / "spk2gender", problems);
  for (const TextLine& line : genders) {
    if (line.rest.empty()) problems.push_back({At(folder / "spk2gender", line), "expected SPEAKER GENDER", true});
    dir.gender_[line.key] = line.rest;
  }
  return dir;
}

}  // namespace antiphon::data
