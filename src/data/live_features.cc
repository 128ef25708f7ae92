#include "data/live_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "data/archive.h"
#include "data/feature_extraction.h"
#include "data/file_checksums.h"
#include "data/text_table.h"
#include "feat/foreign_sound.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

constexpr char kOptionsFile[] = "live.toml";
constexpr char kFrontEndFile[] = "front_end.toml";
constexpr char kStatisticsFile[] = "cmvn.ark";
constexpr char kAudioFilesFile[] = "audio_files";
constexpr char kSegmentsFile[] = "segments";
constexpr const char* kAlwaysThere[] = {kOptionsFile, kFrontEndFile, kAudioFilesFile, "wav.scp", "utt2spk"};

// Whole seconds: what every file system keeps when a corpus is copied with its times.
int64_t ChangedAt(const fs::path& file) {
  return std::chrono::duration_cast<std::chrono::seconds>(fs::last_write_time(file).time_since_epoch()).count();
}

void RequireFiles(const fs::path& folder, const std::map<std::string, std::string>& sums) {
  for (const char* name : kAlwaysThere) {
    if (!sums.contains(name)) Throw<InputError>("'{}' has no checksum in store.json", (folder / name).string());
  }
  for (const auto& [name, sum] : sums) {
    if (IsAsWritten(folder, name, sums)) continue;
    Throw<InputError>("'{}' is not what was written: it was cut short or changed; make the store again",
                      (folder / name).string());
  }
}

DataDir ReadRecordings(const fs::path& folder, const std::map<std::string, std::string>& sums) {
  RequireFiles(folder, sums);
  // That there are no transcripts is no news.
  std::vector<DataProblem> problems;
  DataDir dir = internal::ReadDataDir(folder, {}, problems);
  for (const DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
  }
  return dir;
}

}  // namespace

LiveFeatures::LiveFeatures(const fs::path& folder, const internal::StoreHeader& header,
                           std::span<const FrameStore::Utterance> utterances, std::span<const std::string> speakers)
    : folder_(folder),
      coding_(header.frame_coding()),
      utterances_(utterances),
      speakers_(speakers),
      dir_(ReadRecordings(folder, header.live)),
      audio_(dir_),
      front_end_(ReadFrontEnd(folder)) {
  options_ = ReadOptions<Options>(Config::Load(folder / kOptionsFile));
  ReadAudioFiles();
  if (header.live.contains(kStatisticsFile)) {
    SequentialReader<DoubleMatrix> reader("ark:" + (folder / kStatisticsFile).string());
    while (reader.Next()) statistics_.emplace(reader.key(), feat::CmvnStats::FromMatrix(std::move(reader.value())));
  }
  copies_.emplace(1.0, internal::SpeechCopy{});
  std::map<std::string_view, const Utterance*> by_id;
  for (const Utterance& utterance : dir_.utterances()) by_id.emplace(utterance.utt_id, &utterance);
  for (const FrameStore::Utterance& utterance : utterances_) {
    auto found = by_id.find(utterance.utt_id);
    double speed = 1.0;
    if (found == by_id.end()) {
      speed = internal::SpeedOf(utterance.utt_id).value_or(1.0);
      found = by_id.find(OriginalName(utterance.utt_id));
      if (!copies_.contains(speed)) copies_.emplace(speed, internal::CopyAtSpeed(speed));
    }
    if (found == by_id.end()) Throw<InputError>("'{}' lacks utterance '{}'", folder.string(), utterance.utt_id);
    items_.push_back(
        {utterance.utt_id, speakers_[static_cast<size_t>(utterance.speaker)], found->second, &copies_.at(speed)});
  }
  if (front_end_.dim() != header.feat_dim) {
    Throw<InputError>("'{}' gives {} features, the store has {}", (folder / kFrontEndFile).string(), front_end_.dim(),
                      header.feat_dim);
  }
}

void LiveFeatures::ReadAudioFiles() {
  std::vector<DataProblem> problems;
  const fs::path list = folder_ / kAudioFilesFile;
  for (const TextLine& line : ReadTextTable(list, problems)) {
    long long bytes = 0, changed_s = 0;
    if (std::sscanf(line.rest.c_str(), "%lld %lld", &bytes, &changed_s) != 2) {
      Throw<InputError>("'{}', recording '{}': expected size and time, found '{}'", list.string(), line.key, line.rest);
    }
    files_.emplace(line.key, FileState{bytes, changed_s});
  }
}

void LiveFeatures::RequireSameFile(const Recording& recording) const {
  const fs::path file = dir_.ResolveAudio(recording);
  const auto written = files_.find(recording.id);
  if (written == files_.end()) Throw<InputError>("'{}' lacks it", (folder_ / kAudioFilesFile).string());
  const auto bytes = static_cast<int64_t>(fs::file_size(file));
  if (bytes != written->second.bytes) {
    Throw<InputError>("'{}' has {} bytes, and had {} when the store was made: make the store again", file.string(),
                      bytes, written->second.bytes);
  }
  if (ChangedAt(file) == written->second.changed_s) return;
  Throw<InputError>(
      "'{}' was changed after the store was made: make the store again; copies of recordings must keep their times",
      file.string());
}

void LiveFeatures::Normalise(const FrameStore::Utterance& utterance, MatrixView frames) const {
  if (statistics_.empty()) return;
  auto found = statistics_.find(speakers_[static_cast<size_t>(utterance.speaker)]);
  if (found == statistics_.end()) found = statistics_.find(utterance.utt_id);
  if (found == statistics_.end()) {
    Throw<InputError>("'{}' has statistics neither of the speaker nor of the utterance",
                      (folder_ / kStatisticsFile).string());
  }
  found->second.Apply(frames, options_.norm_vars);
}

std::string LiveFeatures::Make(size_t index, const Vary& vary) const {
  const FrameStore::Utterance& utterance = utterances_[index];
  const internal::SpeechItem& item = items_[index];
  // Not ended by a request to stop: the others take this step too, and all save after it.
  const feat::PatientReading to_the_end;
  return WithContext(
      [&] {
        const Recording& recording = dir_.recordings()[item.utterance->recording];
        WithContext([&] { RequireSameFile(recording); }, [&] { return fmt::format("recording '{}'", recording.id); });
        internal::RecordingOptions options{.channel = options_.channel};
        if (vary) options.vary = [&](feat::Waveform wave) { return vary(std::move(wave), item.utt_id); };
        Matrix frames = internal::FramesOf(item, audio_, front_end_, options).frames;
        if (frames.rows() < utterance.num_frames) {
          Throw<InputError>("the recording gives {} frames, the store says {}: make the store again", frames.rows(),
                            utterance.num_frames);
        }
        const MatrixView used = frames.view().Rows(0, utterance.num_frames);
        Normalise(utterance, frames);
        std::string coded(coding_.bytes(utterance.num_frames), '\0');
        coding_.Encode(used, coded.data());
        return coded;
      },
      [&] { return fmt::format("'{}', utterance '{}'", folder_.parent_path().string(), utterance.utt_id); });
}

std::map<std::string, std::string> WriteLiveSetup(const LiveSetup& setup, const fs::path& folder) {
  std::vector<size_t> needed;
  for (const std::string& utt_id : setup.utterances) needed.push_back(setup.dir.Find(utt_id));
  const DataDir all = setup.dir.Subset(needed);
  DataDir plain;
  std::string files;
  for (const Recording& recording : all.recordings()) {
    const AudioReference reference = ParseAudioReference(recording.reference);
    CHECK(reference.command.empty()) << recording.id;
    const fs::path file = fs::absolute(all.ResolveAudio(recording)).lexically_normal();
    const std::string offset = reference.offset ? fmt::format(":{}", *reference.offset) : "";
    plain.AddRecording({recording.id, file.string() + offset, 0});
    files += fmt::format("{} {} {}\n", recording.id, fs::file_size(file), ChangedAt(file));
  }
  for (Utterance utterance : all.utterances()) {
    utterance.words.clear();
    utterance.has_transcript = false;
    plain.AddUtterance(std::move(utterance));
  }
  plain.Write(folder);
  std::vector<std::string> names = {std::begin(kAlwaysThere), std::end(kAlwaysThere)};
  if (all.has_segments()) {
    // As they were written, so that not a sample is rounded.
    std::vector<DataProblem> problems;
    std::map<std::string, std::string> lines;
    for (TextLine& line : ReadTextTable(setup.dir.folder() / kSegmentsFile, problems)) {
      lines.emplace(std::move(line.key), std::move(line.rest));
    }
    std::string text;
    for (const Utterance& utterance : all.utterances()) {
      text += fmt::format("{} {}\n", utterance.utt_id, lines[utterance.utt_id]);
    }
    WriteFileAtomically(folder / kSegmentsFile, text);
    names.emplace_back(kSegmentsFile);
  }
  WriteFileAtomically(folder / kAudioFilesFile, files);
  WriteFileAtomically(folder / kFrontEndFile, OptionsToConfig(setup.front_end).ToToml());
  LiveFeatures::Options options = setup.options;
  WriteFileAtomically(folder / kOptionsFile, OptionsToConfig(options).ToToml());
  if (!setup.statistics.empty()) {
    TableWriter<DoubleMatrix> writer(folder / kStatisticsFile, {.scp = false});
    for (const auto& [key, statistics] : setup.statistics) writer.Write(key, statistics.matrix());
    writer.Close();
    names.emplace_back(kStatisticsFile);
  }
  std::map<std::string, std::string> sums;
  const nlohmann::json written = ChecksumsOf(folder, names);
  for (const auto& [name, sum] : written.items()) sums[name] = sum.get<std::string>();
  return sums;
}

}  // namespace antiphon::data
