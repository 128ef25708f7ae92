// What a run on very much speech begins with: seconds and memory of opening its frame store, planning epochs, and
// reading the first minibatches.
//
// The store has an index of its full size; its shards are files without blocks, which hold zeros, so that it takes no
// room on the disk. Speakers have 100 utterances each. Usage: large_store_bench [HOURS [FEAT_DIM [FOLDER]]]; prints one
// JSON object per line.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/random.h"
#include "data/frame_store.h"
#include "data/frame_store_format.h"
#include "data/minibatch_pool.h"

namespace antiphon::data {
namespace {

constexpr int64_t kFramesPerHour = 360'000;
constexpr int kUtteranceFrames = 1200;

double Gigabytes(double bytes) { return bytes / 1e9; }

double PeakMemoryGigabytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return Gigabytes(1024.0 * static_cast<double>(usage.ru_maxrss));
}

void MakeStore(const std::filesystem::path& folder, int64_t utterances, int feat_dim) {
  constexpr uint64_t kShardBytes = uint64_t{256} << 20;
  internal::StoreHeader header;
  header.feat_dim = feat_dim;
  header.num_pdfs = 6000;
  header.num_utterances = utterances;
  header.num_frames = utterances * kUtteranceFrames;
  const uint64_t bytes = header.utterance_bytes(kUtteranceFrames);
  const uint64_t room = (bytes + internal::kAlignment - 1) / internal::kAlignment * internal::kAlignment;
  const uint64_t checksum = Checksum(std::string(bytes, '\0'));
  std::vector<std::string> speakers;
  std::vector<internal::UtteranceRecord> records;
  for (int64_t u = 0; u < utterances; ++u) {
    if (u % 100 == 0) speakers.push_back(fmt::format("speaker-{:06}", u / 100));
    if (header.shard_bytes.empty() || header.shard_bytes.back() + room > kShardBytes) header.shard_bytes.push_back(0);
    internal::UtteranceRecord record;
    // No order of the ids is that of the store.
    record.utterance.utt_id = fmt::format("speaker-{:06}-{:08x}", u / 100, MixSeed(1, static_cast<uint64_t>(u)) >> 32);
    record.utterance.speaker = static_cast<int32_t>(speakers.size() - 1);
    record.utterance.num_frames = kUtteranceFrames;
    record.place = {static_cast<uint32_t>(header.shard_bytes.size() - 1), header.shard_bytes.back(), checksum};
    header.shard_bytes.back() += room;
    records.push_back(std::move(record));
  }
  std::filesystem::create_directories(folder);
  for (size_t s = 0; s < header.shard_bytes.size(); ++s) {
    const std::filesystem::path shard = folder / internal::ShardName(s);
    std::ofstream(shard).flush();
    std::filesystem::resize_file(shard, header.shard_bytes[s]);
  }
  const std::string index = internal::IndexToBytes(speakers, records);
  header.index_bytes = index.size();
  header.index_checksum = Checksum(index);
  WriteFileAtomically(folder / "index.bin", index);
  WriteFileAtomically(folder / "store.json", internal::HeaderToJson(header));
  fmt::print("{{\"utterances\": {}, \"frames\": {}, \"shards\": {}, \"store_gb\": {:.1f}, \"index_mb\": {:.1f}}}\n",
             utterances, header.num_frames, header.shard_bytes.size(),
             Gigabytes(static_cast<double>(room) * static_cast<double>(utterances)),
             1e-6 * static_cast<double>(index.size()));
}

class Stopwatch {
 public:
  double Seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void Measure(const std::filesystem::path& folder, const MinibatchOptions& options) {
  const Stopwatch all;
  const auto store = std::make_shared<const FrameStore>(folder);
  const double open = all.Seconds();
  const double memory_open = PeakMemoryGigabytes();
  const auto pool = std::make_shared<const MinibatchPool>(store, options, 1);
  const double pooled = all.Seconds();
  const int64_t minibatches = pool->num_minibatches(0);
  const double planned = all.Seconds();
  MinibatchBuffer buffer;
  pool->Fill(0, 0, 0, buffer);
  const double first = all.Seconds();
  fmt::print(
      "{{\"chunk_frames\": {}, \"shards_at_once\": {}, \"open_s\": {:.2f}, \"pool_s\": {:.2f}, \"plan_s\": {:.2f}, "
      "\"first_minibatch_s\": {:.2f}, \"start_s\": {:.2f}, \"minibatches\": {}, \"peak_gb_open\": {:.2f}, \"peak_gb\": "
      "{:.2f}}}\n",
      options.chunk_frames, options.shards_at_once, open, pooled - open, planned - pooled, first - planned, first,
      minibatches, memory_open, PeakMemoryGigabytes());
}

void Run(int64_t hours, int feat_dim, const std::filesystem::path& folder) {
  MakeStore(folder, hours * kFramesPerHour / kUtteranceFrames, feat_dim);
  std::fflush(stdout);
  for (const int at_once : {0, 16}) {
    MinibatchOptions options;
    options.shards_at_once = at_once;
    Measure(folder, options);
  }
  MinibatchOptions chunks;
  chunks.minibatch = 1500;
  chunks.chunk_frames = 150;
  chunks.carry_state = false;
  Measure(folder, chunks);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace antiphon::data

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  antiphon::data::Run(argument(1, 10'000), argument(2, 40),
                      argc > 3 ? std::filesystem::path(argv[3])
                               : std::filesystem::temp_directory_path() / "antiphon_large_store_bench");
  return 0;
}
