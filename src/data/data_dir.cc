#include "data/data_dir.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/partition.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr int kParentsLookedAt = 3;

void WriteLines(const fs::path& path, const std::map<std::string, std::string>& lines) {
  WriteFileAtomically(path, [&](std::ostream& out) {
    for (const auto& [key, rest] : lines) out << key << (rest.empty() ? "" : " ") << rest << '\n';
  });
}

// A file that this directory does not need must not be left over from an older one.
void WriteOrRemove(const fs::path& path, const std::map<std::string, std::string>& lines) {
  if (!lines.empty()) return WriteLines(path, lines);
  std::error_code ignored;
  fs::remove(path, ignored);
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

double DurationOf(const Utterance& u) {
  if (u.duration_s >= 0.0) return u.duration_s;
  return u.end_s >= 0.0 ? u.end_s - u.start_s : -1.0;
}

// Where an utterance stands, or would.
size_t PlaceOf(const std::vector<Utterance>& utterances, std::string_view utt_id) {
  const auto it = std::lower_bound(utterances.begin(), utterances.end(), utt_id,
                                   [](const Utterance& u, std::string_view id) { return u.utt_id < id; });
  return static_cast<size_t>(it - utterances.begin());
}

bool IsAt(const std::vector<Utterance>& utterances, size_t place, std::string_view utt_id) {
  return place < utterances.size() && utterances[place].utt_id == utt_id;
}

}  // namespace

AudioReference ParseAudioReference(std::string_view text) {
  if (text.ends_with('|')) {
    text.remove_suffix(1);
    return {.command = std::string(text), .path = {}, .offset = {}};
  }
  const size_t colon = text.rfind(':');
  if (colon != std::string_view::npos && colon + 1 < text.size()) {
    uint64_t offset = 0;
    const char* const end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data() + colon + 1, end, offset);
    if (error == std::errc() && last == end)
      return {.command = {}, .path = fs::path(text.substr(0, colon)), .offset = offset};
  }
  return {.command = {}, .path = fs::path(text), .offset = {}};
}

DataDir DataDir::Load(const fs::path& folder, const DataDirOptions& options) {
  std::vector<DataProblem> problems;
  DataDir dir = internal::ReadDataDir(folder, options, problems);
  for (const DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
  }
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i)
    log::Warn("{}: {}", problems[i].where, problems[i].what);
  if (problems.size() > kShown) {
    log::Warn("{}: {} more problems; 'antiphon prepare --check' lists them", folder.string(), problems.size() - kShown);
  }
  return dir;
}

std::vector<std::string> DataDir::speakers() const {
  std::set<std::string> names;
  for (const Utterance& u : utterances_) names.insert(u.speaker);
  return {names.begin(), names.end()};
}

size_t DataDir::Find(std::string_view utt_id) const {
  const size_t place = PlaceOf(utterances_, utt_id);
  if (!IsAt(utterances_, place, utt_id)) Throw<InputError>("'{}' has no utterance '{}'", folder_.string(), utt_id);
  return place;
}

bool DataDir::Has(std::string_view utt_id) const { return IsAt(utterances_, PlaceOf(utterances_, utt_id), utt_id); }

DataDir DataDir::Subset(const std::vector<size_t>& chosen) const {
  DataDir out;
  out.folder_ = folder_;
  out.options_ = options_;
  out.has_segments_ = has_segments_;
  std::vector<size_t> order = chosen;
  std::sort(order.begin(), order.end());
  std::unordered_map<size_t, size_t> recordings;
  for (const size_t i : order) {
    Utterance u = utterances_.at(i);
    const auto [it, is_new] = recordings.emplace(u.recording, out.recordings_.size());
    if (is_new) out.recordings_.push_back(recordings_[u.recording]);
    u.recording = it->second;
    if (const auto g = gender_.find(u.speaker); g != gender_.end()) out.gender_.insert(*g);
    out.utterances_.push_back(std::move(u));
  }
  return out;
}

std::pair<DataDir, DataDir> DataDir::SplitBySpeaker(double fraction, uint64_t seed) const {
  const bool timed =
      std::all_of(utterances_.begin(), utterances_.end(), [](const Utterance& u) { return DurationOf(u) >= 0.0; });
  std::vector<PartitionItem> items;
  for (const Utterance& u : utterances_) {
    items.push_back({u.utt_id, timed ? static_cast<int64_t>(std::ceil(DurationOf(u) * 100.0)) : 1, u.speaker});
  }
  const std::vector<bool> held_out =
      WithContext([&] { return HoldOutStrata(items, fraction, seed); },
                  [&] { return fmt::format("holding out speakers of '{}'", folder_.string()); });
  std::vector<size_t> sides[2];
  for (size_t i = 0; i < items.size(); ++i) sides[held_out[i] ? 1 : 0].push_back(i);
  return {Subset(sides[0]), Subset(sides[1])};
}

fs::path DataDir::ResolveAudio(const Recording& recording) const {
  const AudioReference reference = ParseAudioReference(recording.reference);
  if (!reference.command.empty()) return {};
  std::vector<fs::path> candidates;
  if (reference.path.is_absolute()) {
    candidates.push_back(reference.path);
  } else if (!options_.audio_root.empty()) {
    candidates.push_back(fs::path(options_.audio_root) / reference.path);
  } else {
    candidates.push_back(reference.path);
    fs::path base = fs::absolute(folder_).lexically_normal();
    if (!base.has_filename()) base = base.parent_path();
    for (int up = 0; up <= kParentsLookedAt; ++up, base = base.parent_path()) {
      candidates.push_back(base / reference.path);
      if (base == base.root_path()) break;
    }
  }
  std::error_code ignored;
  std::string looked;
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate, ignored)) return candidate;
    looked += "\n    " + candidate.string();
  }
  if (reference.path.is_absolute()) Throw<InputError>("there is no audio file '{}'", reference.path.string());
  Throw<InputError>(
      "there is no audio file '{}'; looked for{}\n  give the folder that the paths start from with --audio-root",
      reference.path.string(), looked);
}

void DataDir::Write(const fs::path& folder, bool absolute_audio) const {
  std::map<std::string, std::string> wav, text, utt2spk, spk2utt, segments, utt2dur;
  for (const Recording& r : recordings_) {
    const AudioReference reference = ParseAudioReference(r.reference);
    wav[r.id] = r.reference;
    if (absolute_audio && reference.command.empty()) {
      const fs::path file =
          WithContext([&] { return ResolveAudio(r); }, [&] { return fmt::format("recording '{}'", r.id); });
      wav[r.id] = fs::absolute(file).lexically_normal().string();
      if (reference.offset) wav[r.id] += fmt::format(":{}", *reference.offset);
    }
  }
  for (const Utterance& u : utterances_) {
    if (u.has_transcript) text[u.utt_id] = JoinWords(u.words);
    utt2spk[u.utt_id] = u.speaker;
    std::string& spoken = spk2utt[u.speaker];
    spoken += (spoken.empty() ? "" : " ") + u.utt_id;
    if (has_segments_) {
      const double end_s = u.end_s >= 0.0 ? u.end_s : -1.0;  // no other negative number is read
      segments[u.utt_id] = fmt::format("{} {:.5f} {:.5f}", recordings_[u.recording].id, u.start_s, end_s);
      if (u.channel >= 0) segments[u.utt_id] += fmt::format(" {}", u.channel);
    }
    if (DurationOf(u) >= kShortestUtteranceS) utt2dur[u.utt_id] = fmt::format("{:.4f}", DurationOf(u));
  }
  WriteOrRemove(folder / "spk2gender", gender_);
  WriteOrRemove(folder / "segments", segments);
  WriteOrRemove(folder / "utt2dur", utt2dur);
  WriteOrRemove(folder / "text", text);
  WriteLines(folder / "utt2spk", utt2spk);
  WriteLines(folder / "spk2utt", spk2utt);
  WriteLines(folder / "wav.scp", wav);
}

size_t DataDir::AddRecording(Recording recording) {
  if (recording_index_.size() != recordings_.size()) {  // read or copied from elsewhere
    recording_index_.clear();
    for (size_t i = 0; i < recordings_.size(); ++i) recording_index_.emplace(recordings_[i].id, i);
  }
  const auto [it, is_new] = recording_index_.emplace(recording.id, recordings_.size());
  if (is_new) {
    recordings_.push_back(std::move(recording));
  } else if (const std::string& there = recordings_[it->second].reference; there != recording.reference) {
    Throw<InputError>("the id '{}' would mean both '{}' and '{}': rename one of them", recording.id, there,
                      recording.reference);
  }
  return it->second;
}

void DataDir::AddUtterance(Utterance utterance) {
  if (utterance.recording >= recordings_.size()) {
    Throw<InputError>("utterance '{}' names a recording that is not there", utterance.utt_id);
  }
  const size_t place = PlaceOf(utterances_, utterance.utt_id);
  if (IsAt(utterances_, place, utterance.utt_id)) Throw<InputError>("utterance '{}' is there twice", utterance.utt_id);
  // Without segments an utterance has its recording's name.
  const bool is_whole = utterance.start_s <= 0.0 && utterance.end_s < 0.0 && utterance.channel < 0;
  if (!is_whole || utterance.utt_id != recordings_[utterance.recording].id) has_segments_ = true;
  utterances_.insert(utterances_.begin() + static_cast<ptrdiff_t>(place), std::move(utterance));
}

void DataDir::AddUtterances(std::map<std::string, Utterance> utterances) {
  // In their order: each goes to the end.
  while (!utterances.empty()) AddUtterance(std::move(utterances.extract(utterances.begin()).mapped()));
}

}  // namespace antiphon::data
