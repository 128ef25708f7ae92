// antiphon bench streams: how long frames of many live streams wait for their scores.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/finally.h"
#include "base/random.h"
#include "bench_network.h"
#include "command.h"
#include "device/device.h"
#include "infer/stream_pool.h"

namespace antiphon::app {
namespace {

constexpr double kFrameShift = 0.01;
constexpr int kContext = 5;

struct BenchStreamsOptions {
  std::string layers = "462,5x2048,10217";
  std::string activation = "sigmoid";
  std::string precision = "int8";
  int streams = 50;
  int profiles = 0;
  double seconds = 20;
  infer::StreamPoolOptions pool;
  template <class V>
  void Visit(V& v) {
    v("layers", layers,
      "sizes of input (a multiple of 11 is taken as 5 frames to each side), hidden layers and output");
    VisitActivation(v, activation);
    VisitScoringPrecision(v, precision);
    v("streams", streams, Range{0, 100000},
      "live streams, each with a frame every 10 ms; 0: as many as are measured to fit");
    v("profiles", profiles, Range{0, 100000},
      "speakers with random factors on all hidden values, among whom the streams are dealt out; 0: none");
    v("seconds", seconds, Range{0.5, 1e6}, "of real time");
    pool.Visit(v);
  }
};

std::shared_ptr<const infer::NnetModel> TheModel(const BenchStreamsOptions& options, uint64_t seed) {
  const std::vector<int> dims = ParseLayers(options.layers);
  nn::Model model;
  const bool splices = dims.front() % (2 * kContext + 1) == 0;
  model.feature_dim = splices ? dims.front() / (2 * kContext + 1) : dims.front();
  model.left_context = model.right_context = splices ? kContext : 0;
  model.network = nn::Network(NetworkOf(dims, options.activation), dims.front(), dims.back(), seed);
  infer::NnetScorerOptions scorer;
  scorer.precision = options.precision;
  scorer.prior_scale = 0;
  scorer.block_frames = options.pool.batch;
  scorer.adaptable = options.profiles > 0;
  return std::make_shared<const infer::NnetModel>(std::move(model), scorer);
}

using Profiles = std::vector<std::shared_ptr<const infer::BoundProfile>>;

Profiles RandomProfiles(const BenchStreamsOptions& options, const infer::NnetModel& model, uint64_t seed) {
  const std::vector<int> dims = ParseLayers(options.layers);
  Rng rng(seed);
  Profiles profiles;
  while (std::ssize(profiles) < options.profiles) {
    nn::SpeakerProfile profile;
    profile.model = model.id();
    for (size_t i = 1; i + 1 < dims.size(); ++i) {
      nn::SpeakerProfile::Part part;
      part.after = fmt::format("{}{}", options.activation, i);
      part.scale = Matrix(1, dims[i]);
      for (float& factor : part.scale.Row(0)) factor = static_cast<float>(2 * rng.Uniform());
      profile.parts.push_back(std::move(part));
    }
    profiles.push_back(model.Bind(std::move(profile)));
  }
  return profiles;
}

int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Delays in bins of 1 %, so that hours of them take no more memory than a second.
class Delays {
 public:
  void Add(double seconds) {
    const double bin = std::log(std::max(seconds, kShortest) / kShortest) / std::log(kStep);
    ++counts_[std::min(counts_.size() - 1, static_cast<size_t>(bin))];
    ++total_;
  }
  bool empty() const { return total_ == 0; }
  double Percentile(double share) const {
    auto left = static_cast<int64_t>(share * static_cast<double>(total_ - 1));
    size_t bin = 0;
    while (bin + 1 < counts_.size() && left >= counts_[bin]) left -= counts_[bin++];
    return kShortest * std::pow(kStep, static_cast<double>(bin) + 0.5);
  }

 private:
  static constexpr double kShortest = 1e-5;
  static constexpr double kStep = 1.01;
  std::vector<int64_t> counts_ = std::vector<int64_t>(1800, 0);  // up to ten minutes
  int64_t total_ = 0;
};

// Frames come in on one thread, in real time; workers score what is there.
class Simulation {
 public:
  Simulation(const BenchStreamsOptions& options, std::shared_ptr<const infer::NnetModel> model, int workers,
             uint64_t seed)
      : options_(options), model_(std::move(model)), pool_(model_, PoolOptions(options)), workers_(workers) {
    const Profiles profiles = RandomProfiles(options, *model_, seed);
    for (size_t i = 0; i < static_cast<size_t>(options.streams); ++i) {
      ids_.push_back(pool_.Open(profiles.empty() ? nullptr : profiles[i % profiles.size()]));
    }
    Rng rng(seed);
    frames_ = Matrix(64, model_->model().feature_dim);
    for (int64_t i = 0; i < frames_.size(); ++i) frames_.data()[i] = static_cast<float>(rng.Normal());
  }

  void Run() {
    start_ = std::chrono::steady_clock::now();
    {
      std::vector<std::thread> threads;
      const Finally stop([&] {
        done_ = true;
        for (std::thread& t : threads) t.join();
      });
      for (int w = 0; w < workers_; ++w) threads.emplace_back([this] { Work(); });
      Feed();
    }
    for (const int id : ids_) {
      const infer::StreamStats stats = pool_.stats(id);
      frames += stats.frames;
      evaluations += stats.evaluations;
    }
  }

  double Percentile(double share) const { return delays_.Percentile(share); }

  int64_t frames = 0, evaluations = 0, resident_early = 0, resident_late = 0;
  size_t most_bytes = 0;
  bool empty() const { return delays_.empty(); }

 private:
  static infer::StreamPoolOptions PoolOptions(const BenchStreamsOptions& options) {
    infer::StreamPoolOptions pool = options.pool;
    pool.max_streams = std::max(pool.max_streams, options.streams);
    return pool;
  }
  double Now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  // Stream i's frames fall due at i/streams of a frame shift after the others'.
  void Feed() {
    int64_t fed = 0;
    const auto streams = static_cast<int64_t>(ids_.size());
    const auto total = static_cast<int64_t>(options_.seconds / kFrameShift) * streams;
    while (fed < total) {
      ThrowIfCancelled("feeding the streams");
      const auto due = std::min(total, static_cast<int64_t>(Now() / kFrameShift * static_cast<double>(streams)));
      for (; fed < due; ++fed) {
        const int64_t tick = fed / streams;
        pool_.Accept(ids_[static_cast<size_t>(fed % streams)], frames_.view().Rows(tick % frames_.rows(), 1),
                     static_cast<double>(fed) * kFrameShift / static_cast<double>(streams));
      }
      if (resident_early == 0 && fed > total / 4) resident_early = ResidentBytes();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    resident_late = ResidentBytes();
  }

  void Work() {
    SetComputeThreads(1);
    while (!done_) {
      if (pool_.RunBatch(Now()) == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(500));
        continue;
      }
      const std::lock_guard lock(mutex_);
      for (const int id : ids_) {
        most_bytes = std::max(most_bytes, pool_.bytes(id));
        pool_.Take(id, [&](std::span<const float>, double arrival) { delays_.Add(Now() - arrival); });
      }
    }
  }

  const BenchStreamsOptions& options_;
  std::shared_ptr<const infer::NnetModel> model_;
  infer::StreamPool pool_;
  int workers_;
  std::vector<int> ids_;
  Matrix frames_;
  std::chrono::steady_clock::time_point start_;
  std::atomic<bool> done_{false};
  std::mutex mutex_;
  Delays delays_;  // guarded by mutex_ while workers run
};

void BenchStreams(const BenchStreamsOptions& given, CommandContext& context) {
  const auto model = TheModel(given, context.seed());
  BenchStreamsOptions options = given;
  if (options.streams == 0) {
    options.streams = infer::MeasureCapacity(*model, options.pool, context.threads(), 1 / kFrameShift);
    context.Print("{} streams are measured to fit", options.streams);
  }
  Simulation simulation(options, model, context.threads(), context.seed());
  simulation.Run();
  if (simulation.empty()) throw Error("no frame was scored in the given time");
  const double look_ahead = model->model().right_context * kFrameShift;
  const double p50 = simulation.Percentile(0.5), p95 = simulation.Percentile(0.95), p99 = simulation.Percentile(0.99);
  const double copied = 1.0 - static_cast<double>(simulation.evaluations) / static_cast<double>(simulation.frames);
  const int speakers = std::min(options.profiles, options.streams);
  if (speakers > 0) context.Print("{} speaker(s) with profiles", speakers);
  context.Print(
      "{} streams for {} s on {} thread(s), {}: delay p50 {:.1f} ms, p95 {:.1f} ms, p99 {:.1f} ms, of which {:.0f} ms "
      "are the network's look-ahead",
      options.streams, options.seconds, context.threads(), options.precision, 1e3 * p50, 1e3 * p95, 1e3 * p99,
      1e3 * look_ahead);
  context.Print("{:.1f} % of the scores copied; {} bytes per stream at most; resident memory grew by {} KiB",
                100 * copied, simulation.most_bytes, (simulation.resident_late - simulation.resident_early) / 1024);
  const nlohmann::json json = {{"streams", options.streams},
                               {"profiles", speakers},
                               {"seconds", options.seconds},
                               {"threads", context.threads()},
                               {"precision", options.precision},
                               {"delay_p50_s", p50},
                               {"delay_p95_s", p95},
                               {"delay_p99_s", p99},
                               {"look_ahead_s", look_ahead},
                               {"frames", simulation.frames},
                               {"copied_share", copied},
                               {"bytes_per_stream", simulation.most_bytes},
                               {"resident_growth_bytes", simulation.resident_late - simulation.resident_early},
                               {"cpu", DescribeCpu()}};
  context.SetResult(json.dump());
}

REGISTER_COMMAND(
    "bench streams", BenchStreamsOptions, BenchStreams,
    {.summary = "delay of scores for many live streams",
     .description = "Feeds generated frames of many streams in real time, scores them in common batches, and shows how "
                    "long frames waited, what a stream holds in memory, and how many scores had to be copied.",
     .example = "antiphon bench streams --streams 50 --precision int8 --threads 2 --seconds 20"});

}  // namespace
}  // namespace antiphon::app
