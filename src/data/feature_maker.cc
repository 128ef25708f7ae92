#include "data/feature_maker.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "base/config.h"
#include "base/error.h"
#include "base/random.h"
#include "base/try_thread.h"

namespace antiphon::data {
namespace {

// Makers take what the arithmetic leaves; it is their turn when it waits.
constexpr int kNice = 5;

void GiveWay() {
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  // Only a hint: without it features are made as well.
  (void)::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + kNice);
}

}  // namespace

struct FeatureMaker::Made {
  int64_t epoch = 0;
  uint32_t utterance = 0;
  bool taken = false;              // guarded by the maker's mutex
  std::atomic<bool> done = false;  // what follows is final
  std::string coded;
  std::string failure;  // empty: none. A text, as several readers may throw it at the same time
  ErrorKind kind = ErrorKind::kInput;
};

namespace {

// Who asked to stop is not to read of bad input, nor who has no room for it on disk or in memory.
[[noreturn]] void ThrowFailure(const std::string& failure, ErrorKind kind) {
  if (kind == ErrorKind::kCancelled) throw Cancelled(failure);
  if (kind == ErrorKind::kMemory) throw std::bad_alloc();
  if (kind == ErrorKind::kIo) throw IoError(failure);
  throw InputError(failure);
}

}  // namespace

bool VariationOptions::any() const {
  return volume_low != 1.0 || volume_high != 1.0 || noise_probability > 0 || reverb_probability > 0;
}

FeatureMaker::FeatureMaker(const LiveFeatures& features, const VariationOptions& variation, int num_threads,
                           uint64_t seed)
    : features_(features), clean_share_(variation.clean_share), seed_(seed) {
  if (variation.any()) augmenter_.emplace(variation);
  // Without any, readers make what they need.
  for (int i = 0; i < num_threads && TryThread(threads_, [this] { Work(); }); ++i) {
  }
}

FeatureMaker::~FeatureMaker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<FeatureMaker::Handle> FeatureMaker::Ask(int64_t epoch, std::span<const uint32_t> utterances) {
  // An unchanged recording sounds the same in all epochs.
  if (!augmenter_) epoch = 0;
  std::vector<Handle> handles;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    // Readers take what they need from anywhere in the queue. Without threads no worker takes the rest off it.
    std::erase_if(queue_, [](const std::weak_ptr<Made>& queued) {
      const Handle made = queued.lock();
      return !made || made->taken;
    });
    for (const uint32_t utterance : utterances) {
      std::weak_ptr<Made>& known = known_[{epoch, utterance}];
      Handle made = known.lock();
      if (!made) {
        made = std::make_shared<Made>();
        made->epoch = epoch;
        made->utterance = utterance;
        known = made;
        queue_.push_back(made);
      }
      handles.push_back(std::move(made));
    }
  }
  wanted_.notify_all();
  return handles;
}

// The caller holds the mutex.
bool FeatureMaker::TakeNext(Handle& made) {
  while (!queue_.empty()) {
    made = queue_.front().lock();
    queue_.pop_front();
    if (!made || made->taken) {
      made.reset();
      continue;
    }
    made->taken = true;
    return true;
  }
  return false;
}

void FeatureMaker::Make(Made& made) {
  try {
    LiveFeatures::Vary vary;
    if (augmenter_) {
      vary = [&](feat::Waveform wave, std::string_view utt_id) {
        Rng rng(MixSeed(seed_, static_cast<uint64_t>(made.epoch)), feat::UtteranceSeed(utt_id));
        return rng.Uniform() < clean_share_ ? std::move(wave) : augmenter_->Apply(wave, rng);
      };
    }
    made.coded = features_.Make(made.utterance, vary);
  } catch (const std::exception& e) {
    made.failure = e.what();
    made.kind = antiphon::KindOf(e);
  }
  {
    const std::lock_guard lock(mutex_);
    made.done.store(true, std::memory_order_release);
  }
  made_.notify_all();
}

void FeatureMaker::Work() {
  GiveWay();
  for (;;) {
    Handle made;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [&] { return stop_ || TakeNext(made); });
      if (stop_) return;
    }
    Make(*made);
  }
}

const char* FeatureMaker::Frames(const Handle& handle) {
  while (!handle->done.load(std::memory_order_acquire)) {
    Handle other;
    {
      std::unique_lock lock(mutex_);
      if (!handle->taken) {
        handle->taken = true;
        other = handle;
      } else if (!TakeNext(other)) {
        made_.wait(lock, [&] { return handle->done.load(std::memory_order_acquire); });
        break;
      }
    }
    Make(*other);
  }
  if (!handle->failure.empty()) ThrowFailure(handle->failure, handle->kind);
  return handle->coded.data();
}

std::shared_ptr<FeatureMaker> LiveFeatures::Maker(const VariationOptions& variation, int num_threads,
                                                  uint64_t seed) const {
  const std::string key =
      variation.any() ? fmt::format("{} {}", seed, OptionsToConfig(VariationOptions(variation)).ToToml()) : "unchanged";
  const std::lock_guard lock(mutex_);
  std::shared_ptr<FeatureMaker> maker = makers_[key].lock();
  if (!maker) makers_[key] = maker = std::make_shared<FeatureMaker>(*this, variation, num_threads, seed);
  return maker;
}

}  // namespace antiphon::data
