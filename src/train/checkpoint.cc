#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/temporary_file.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStem = "step-";
constexpr std::string_view kMark = ".rank-";

// Each number under one name, in both directions.
template <class P, class V>
void VisitPosition(P& p, V&& v) {
  v("epoch", p.epoch);
  v("step_in_epoch", p.step_in_epoch);
  v("minibatch_in_epoch", p.minibatch_in_epoch);
  v("step", p.step);
  v("frames", p.frames);
  v("epoch_frames", p.epoch_frames);
  v("epoch_loss_sum", p.epoch_loss.loss_sum);
  v("epoch_weight_sum", p.epoch_loss.weight_sum);
  v("epoch_correct_sum", p.epoch_loss.correct_sum);
  v("log_loss_sum", p.log_loss.loss_sum);
  v("log_weight_sum", p.log_loss.weight_sum);
  v("log_correct_sum", p.log_loss.correct_sum);
  v("running_loss", p.running_loss);
  v("averaged", p.averaged);
  v("fallbacks", p.fallbacks);
  v("finished", p.finished);
  v("best_is_current", p.best_is_current);
  v("arithmetic_seconds", p.arithmetic_seconds);
  v("data_seconds", p.data_seconds);
  v("communication_seconds", p.communication_seconds);
  v("other_seconds", p.other_seconds);
  v("bytes_sent", p.bytes_sent);
  v("lost_workers", p.lost_workers);
  v("given_back", p.given_back);
  v("metrics_bytes", p.metrics_bytes);
  v("events_bytes", p.events_bytes);
}

// Of a checkpoint's file name; -1 if it is none.
int RankOf(std::string_view name) {
  const size_t at = name.find(kMark);
  if (!name.starts_with(kStem) || at == std::string_view::npos) return -1;
  int rank = -1;
  std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), rank);
  return rank;
}

int64_t WorldSizeOf(const SafetensorsReader& reader) {
  int64_t size = 0;
  const std::string text = reader.MetadataOr("workers", "1");
  std::from_chars(text.data(), text.data() + text.size(), size);
  return size;
}

constexpr const char* kWriting = "writing";
constexpr const char* kCommon = "common";

template <class T>
void FromText(const std::string& text, const std::string& name, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "1";
  } else {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      Throw<InputError>("checkpoint: '{}' is '{}', expected a number", name, text);
    }
  }
}

// Numbers with blanks between them; "" and, as one average was once always counted, "0" are none.
void FromText(const std::string& text, const std::string& name, std::vector<int64_t>& values) {
  values.clear();
  std::istringstream words(text);
  for (std::string word; words >> word;) FromText(word, name, values.emplace_back());
  std::erase(values, 0);
}

// "{}" prints the shortest digits that give the same number back.
template <class T>
std::string ToText(const T& value) {
  return fmt::format("{}", value);
}
std::string ToText(bool value) { return value ? "1" : "0"; }
std::string ToText(const std::vector<int64_t>& values) { return fmt::format("{}", fmt::join(values, " ")); }

}  // namespace

void Position::Save(SafetensorsWriter& writer) const {
  VisitPosition(*this, [&](const char* name, const auto& value) {
    writer.SetMetadata(std::string("position.") + name, ToText(value));
  });
}

void Position::Load(const SafetensorsReader& reader) {
  VisitPosition(*this, [&](const char* name, auto& value) {
    FromText(reader.Metadata(std::string("position.") + name), name, value);
  });
}

// The writer knows by then what was left out.
void NoteWriting(SafetensorsWriter& writer, uint64_t writing) {
  writer.SetMetadata(kWriting, fmt::format("{}", writing));
  if (!writer.left_out().empty()) writer.SetMetadata(kCommon, fmt::format("{}", fmt::join(writer.left_out(), "\n")));
}

uint64_t WritingOf(const SafetensorsReader& reader) {
  uint64_t writing = 0;
  FromText(reader.MetadataOr(kWriting, "0"), kWriting, writing);
  return writing;
}

std::vector<std::string> CommonNames(const SafetensorsReader& reader) {
  std::vector<std::string> names;
  std::istringstream lines(reader.MetadataOr(kCommon, ""));
  for (std::string line; std::getline(lines, line);) names.push_back(line);
  return names;
}

void TakeCommon(SafetensorsReader& own, std::shared_ptr<const SafetensorsReader> first) {
  if (WritingOf(own) != WritingOf(*first)) {
    Throw<InputError>("'{}' and '{}' were not written together", own.path().string(), first->path().string());
  }
  const std::vector<std::string> names = CommonNames(own);
  if (!names.empty()) own.Adopt(std::move(first), names);
}

void SaveNetwork(SafetensorsWriter& writer, const std::string& prefix, const nn::Network& network) {
  for (const nn::Parameter* p : network.parameters()) writer.AddView(prefix + p->name, p->value);
  for (const nn::Parameter* p : network.buffers()) writer.AddView(prefix + p->name, p->value);
}

void LoadNetwork(const SafetensorsReader& reader, const std::string& prefix, nn::Network& network) {
  for (nn::Parameter* p : network.parameters()) reader.ReadInto(prefix + p->name, p->value);
  for (nn::Parameter* p : network.buffers()) {
    reader.ReadInto(prefix + p->name, p->value);
    p->MarkChanged();
  }
  network.MarkChanged();
}

CheckpointFolder::CheckpointFolder(fs::path folder, int rank, int world_size, int keep)
    : folder_(std::move(folder)), rank_(rank), world_size_(world_size), keep_(keep) {}

fs::path CheckpointFolder::File(int64_t step, int rank) const {
  return folder_ / fmt::format("{}{:09}.rank-{}.safetensors", kStem, step, rank);
}

int64_t CheckpointFolder::StepOf(const fs::path& file) {
  const std::string name = file.filename().string();
  if (!name.starts_with(kStem)) return -1;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data() + kStem.size(), name.data() + name.size(), step);
  return error == std::errc() && std::string_view(end).starts_with(kMark) ? step : -1;
}

std::vector<int64_t> CheckpointFolder::Steps(int rank) const {
  std::vector<int64_t> steps;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder_, missing)) {
    const int64_t step = StepOf(entry.path());
    if (step >= 0 && entry.path().filename() == File(step, rank).filename()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void CheckpointFolder::RemoveOld() const {
  const std::vector<int64_t> steps = Steps(rank_);
  for (size_t i = 0; i + static_cast<size_t>(keep_) < steps.size(); ++i) {
    std::error_code ignored;
    fs::remove(File(steps[i], rank_), ignored);
  }
  if (rank_ == 0 && std::ssize(steps) >= keep_) RemoveOfLost(steps[steps.size() - static_cast<size_t>(keep_)]);
  RemoveStaleTemporaries(folder_);  // of a process that had not quite ended when this one began to write
}

// Files of ranks that there are no more, of steps before `step`.
void CheckpointFolder::RemoveOfLost(int64_t step) const {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (RankOf(name) >= world_size_ && name < File(step, 0).filename().string()) fs::remove(entry.path(), ignored);
  }
}

std::optional<SoundFile> CheckpointFolder::NewestSound(int64_t not_after) const {
  std::vector<int64_t> steps = Steps(rank_);
  for (; !steps.empty(); steps.pop_back()) {
    if (steps.back() > not_after) continue;
    const fs::path file = File(steps.back(), rank_);
    try {
      const SafetensorsReader reader(file);
      if (WorldSizeOf(reader) != world_size_) continue;
      if (reader.has_checksum()) return SoundFile{steps.back(), WritingOf(reader)};
      log::Warn("checkpoint '{}' carries no checksum: passed over", file.string());
    } catch (const Error& e) {
      log::Warn("checkpoint passed over: {}", e.what());
    }
  }
  return std::nullopt;
}

std::optional<CheckpointFolder::OtherRun> CheckpointFolder::NewestOfOtherSize(const Accepts& accepts) const {
  const std::vector<int64_t> steps = Steps(0);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    try {
      const int64_t size = WorldSizeOf(SafetensorsReader(File(*step, 0)));
      if (size == world_size_) continue;
      bool whole = size > 0;
      const std::vector<SafetensorsReader> ranks = OpenAll(*step, size);
      for (const SafetensorsReader& reader : ranks) {
        whole = whole && reader.has_checksum() && WorldSizeOf(reader) == size;
      }
      if (whole && (!accepts || accepts(ranks))) return OtherRun{*step, size};
    } catch (const Error& e) {
      log::Warn("checkpoint passed over: {}", e.what());
    }
  }
  return std::nullopt;
}

std::vector<SafetensorsReader> CheckpointFolder::OpenAll(int64_t step, int64_t world_size) const {
  std::vector<SafetensorsReader> readers;
  const auto first = std::make_shared<const SafetensorsReader>(File(step, 0));
  for (int r = 0; r < world_size; ++r) TakeCommon(readers.emplace_back(File(step, r)), first);
  return readers;
}

void CheckpointFolder::Clear() const {
  for (const int64_t step : Steps(rank_)) fs::remove(File(step, rank_));
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder_, missing)) {
    if (rank_ == 0 && RankOf(entry.path().filename().string()) >= world_size_) fs::remove(entry.path(), missing);
  }
  RemoveStaleTemporaries(folder_);
}

}  // namespace antiphon::train
