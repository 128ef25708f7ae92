// How fast minibatches of spliced frames come out of a frame store, on one core: frames per second for each coding and
// order.
//
// Usage: frame_store_bench [FRAMES [FEAT_DIM [CONTEXT]]]; prints one JSON object per line.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/random.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"

namespace antiphon::data {
namespace {

void MakeStore(const std::filesystem::path& folder, int64_t frames, int feat_dim, const std::string& coding) {
  constexpr int kUtteranceFrames = 800;
  FrameStoreWriter writer(folder, feat_dim, 2000, {.coding = coding});
  Rng rng(1);
  Matrix features(kUtteranceFrames, feat_dim);
  std::vector<int32_t> pdfs(kUtteranceFrames);
  for (int64_t u = 0; u * kUtteranceFrames < frames; ++u) {
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Uniform());
    for (int32_t& pdf : pdfs) pdf = static_cast<int32_t>(rng.Below(2000));
    writer.Add(fmt::format("utt{}", u), fmt::format("spk{}", u % 50), features, pdfs);
  }
  writer.Finish();
}

double FramesPerSecond(const MinibatchPool& pool, int64_t epoch) {
  MinibatchBuffer buffer;
  const int64_t count = pool.num_minibatches(epoch);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) pool.Fill(epoch, 0, i, buffer);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(pool.num_frames()) / seconds.count();
}

void Run(int64_t frames, int feat_dim, int context) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "antiphon_frame_store_bench";
  for (const std::string coding : {"uint8", "uint16"}) {
    MakeStore(folder, frames, feat_dim, coding);
    const auto store = std::make_shared<const FrameStore>(folder);
    InputNormalisation normalisation{std::vector<float>(static_cast<size_t>(feat_dim), 0.5f),
                                     std::vector<float>(static_cast<size_t>(feat_dim), 2.0f)};
    for (const int chunk : {0, 100}) {
      MinibatchOptions options;
      options.left_context = options.right_context = context;
      options.chunk_frames = chunk;
      const MinibatchPool pool(store, options, 1, 1, {}, normalisation);
      const double first = FramesPerSecond(pool, 0);  // with checksums
      const double second = FramesPerSecond(pool, 1);
      fmt::print(
          "{{\"coding\": \"{}\", \"chunk_frames\": {}, \"spliced_dim\": {}, \"frames\": {}, "
          "\"frames_per_second_first_epoch\": {:.0f}, \"frames_per_second\": {:.0f}}}\n",
          coding, chunk, pool.spliced_dim(), pool.num_frames(), first, second);
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace antiphon::data

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  antiphon::data::Run(argument(1, 1'000'000), argument(2, 42), argument(3, 5));
  return 0;
}
