#include "train/run_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "base/file.h"
#include "comm/fault_injection.h"

namespace antiphon::train {

// The same step may be written anew, and all may die when some have replaced their files: with several ranks the step
// before it stays, too.
RunCheckpoints::RunCheckpoints(std::filesystem::path folder, int keep, comm::Communicator& comm)
    : folder_(std::move(folder)),
      keep_(comm.world_size() > 1 ? std::max(keep, 2) : keep),
      comm_(comm),
      epochs_(folder_, comm.rank(), comm.world_size(), keep_),
      pretraining_(folder_ / "pretraining", comm.rank(), comm.world_size(), keep_),
      begun_by_(comm.world_size()) {}

// In a simulation all starts are the same.
void RunCheckpoints::DrawNumber() {
  if (comm_.world_size() == 1 || comm_.time_is_virtual()) return;
  number_ = static_cast<uint64_t>(std::random_device()()) << 32;
  comm_.Broadcast(0, std::as_writable_bytes(std::span(&number_, 1)));
}

// Ranks may have lost different ones.
std::optional<std::filesystem::path> RunCheckpoints::NewestIn(const CheckpointFolder& folder) const {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (;;) {
    SoundFile mine;
    std::filesystem::path file;
    std::vector<std::byte> bytes;
    comm_.Together([&] {
      mine = folder.NewestSound(limit).value_or(SoundFile{});
      file = folder.File(mine.step);
      bytes = comm_.AllGather(std::as_bytes(std::span(&mine, 1)));
    });
    std::vector<SoundFile> all(bytes.size() / sizeof(SoundFile));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    const auto less = [](const SoundFile& a, const SoundFile& b) { return a.step < b.step; };
    const auto [oldest, newest] = std::minmax_element(all.begin(), all.end(), less);
    if (oldest->step < 0) return std::nullopt;
    const bool together =
        std::all_of(all.begin(), all.end(), [&](const SoundFile& f) { return f.writing == mine.writing; });
    if (oldest->step == newest->step && together) return file;
    // Of one step, but not of one writing: a crash left some of the older ones.
    limit = oldest->step == newest->step ? oldest->step - 1 : oldest->step;
  }
}

// Ranks may have folders of their own; those of a run of another size have to be where the first one looks.
CheckpointFolder::OtherRun RunCheckpoints::OtherSizeIn(const CheckpointFolder& folder,
                                                       const CheckpointFolder::Accepts& accepts) const {
  CheckpointFolder::OtherRun other;
  comm_.Together([&] {
    other = {};
    if (comm_.rank() == 0) other = folder.NewestOfOtherSize(accepts).value_or(other);
    comm_.Broadcast(0, std::as_writable_bytes(std::span(&other, 1)));
  });
  return other;
}

// Who does not see rank 0's file is sent it.
SafetensorsReader RunCheckpoints::Open(const std::filesystem::path& file) {
  SafetensorsReader own(file);
  if (comm_.world_size() == 1) return own;
  std::shared_ptr<const SafetensorsReader> first;
  const bool needed = !CommonNames(own).empty();
  const std::filesystem::path first_file =
      file.parent_path() / epochs_.File(CheckpointFolder::StepOf(file), 0).filename();
  std::error_code unknown;
  if (needed && std::filesystem::exists(first_file, unknown)) {
    first = std::make_shared<const SafetensorsReader>(first_file);
    if (WritingOf(*first) != WritingOf(own)) first.reset();
  }
  std::vector<double> lacking;
  comm_.Together([&] {
    lacking = {needed && !first ? 1.0 : 0.0};
    comm_.AllReduce(std::span<double>(lacking));
  });
  if (lacking[0] > 0) {
    struct Sent {
      std::vector<std::byte> bytes;
      std::optional<SafetensorsReader> reader;
    };
    const auto sent = std::make_shared<Sent>();
    comm_.Together([&] {
      if (comm_.rank() == 0) {
        const MappedFile mapped(file);
        sent->bytes.assign(mapped.bytes().begin(), mapped.bytes().end());
      }
      uint64_t size = sent->bytes.size();
      comm_.Broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
      sent->bytes.resize(size);
      comm_.Broadcast(0, std::span(sent->bytes));
    });
    if (needed && !first) {
      sent->reader.emplace(std::span<const std::byte>(sent->bytes), "rank 0's " + first_file.filename().string());
      first = std::shared_ptr<const SafetensorsReader>(sent, &*sent->reader);
    }
  }
  if (needed) TakeCommon(own, first);
  return own;
}

void RunCheckpoints::BeginIn(const CheckpointFolder& folder, const std::string& what,
                             std::shared_ptr<SafetensorsWriter> writer, int64_t step, bool background) {
  NoteWriting(*writer, ++number_);
  begun_by_ = comm_.world_size();
  const auto write = [writer, what, file = folder.File(step), step, rank = comm_.rank()] {
    comm::FaultPoint("saving", rank, step);
    WithContext([&] { writer->Write(file); },
                [&] { return fmt::format("saving {} {} (older checkpoints are whole)", what, step); });
    comm::FaultPoint("checkpoint", rank, step);
  };
  if (!background) {
    write();
    return Finish();
  }
  writer->Own();
  writing_.Begin(write);
}

void RunCheckpoints::Finish() {
  comm_.Together([this] {
    writing_.Finish();
    if (comm_.world_size() > 1) comm_.Barrier();
  });
  // Older ones go when every rank has this one, whatever happens meanwhile; a lost rank may not have it.
  if (comm_.world_size() != begun_by_) return;
  epochs_.RemoveOld();
  pretraining_.RemoveOld();
}

void RunCheckpoints::Clear() const {
  epochs_.Clear();
  pretraining_.Clear();
}

void RunCheckpoints::ClearPretraining() const {
  pretraining_.Clear();
  std::error_code not_empty_yet;
  std::filesystem::remove(folder_ / "pretraining", not_empty_yet);
}

}  // namespace antiphon::train
