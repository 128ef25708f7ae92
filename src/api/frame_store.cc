#include "antiphon/frame_store.h"

#include <atomic>
#include <deque>
#include <future>
#include <system_error>
#include <utility>

#include "api/alive.h"
#include "api/internal.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/options.h"
#include "data/feature_kind.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"

namespace antiphon {
namespace {

constexpr char kMinibatch[] = "Minibatch";
constexpr char kMinibatches[] = "Minibatches";

}  // namespace

struct ANTIPHON_INTERNAL FrameStore::Impl {
  Impl(const std::string& folder, const data::FrameStoreAccess& access)
      : store(std::make_shared<const data::FrameStore>(folder, access)) {
    const auto speakers = store->speakers();
    for (const data::FrameStore::Utterance& utterance : store->utterances()) {
      utterances.push_back(
          {utterance.utt_id, speakers[static_cast<size_t>(utterance.speaker)], utterance.num_frames, utterance.weight});
    }
  }

  int64_t NumFrames(size_t utterance) const {
    if (utterance >= utterances.size()) {
      Throw<InputError>("utterance {} of '{}': there are {}, counted from 0", utterance, store->folder().string(),
                        utterances.size());
    }
    return utterances[utterance].num_frames;
  }

  std::shared_ptr<const data::FrameStore> store;
  std::vector<Utterance> utterances;
};

FrameStore::FrameStore(const std::string& folder)
    : impl_(std::make_shared<const Impl>(folder, data::FrameStoreAccess())) {}
FrameStore::FrameStore(const std::string& folder, const FrameStoreCache& cache) {
  data::FrameStoreAccess access;
  access.cache.cache_dir = cache.folder;
  access.cache.cache_limit_gb = cache.limit_gb;
  impl_ = std::make_shared<const Impl>(folder, access);
}
FrameStore::~FrameStore() = default;
FrameStore::FrameStore(const FrameStore&) = default;
FrameStore& FrameStore::operator=(const FrameStore&) = default;

int FrameStore::feature_dim() const { return impl_->store->feat_dim(); }
int FrameStore::num_labels() const { return impl_->store->num_pdfs(); }
int64_t FrameStore::num_frames() const { return impl_->store->num_frames(); }
const std::vector<FrameStore::Utterance>& FrameStore::utterances() const { return impl_->utterances; }
bool FrameStore::labelled() const { return impl_->store->labelled(); }
std::string FrameStore::front_end() const { return data::FrontEndFor(*impl_->store, "", false); }
std::vector<int64_t> FrameStore::CountLabels() const { return impl_->store->CountPdfs(); }

std::vector<float> FrameStore::Features(size_t utterance) const {
  const int64_t frames = impl_->NumFrames(utterance);
  std::vector<float> features(static_cast<size_t>(frames * feature_dim()));
  impl_->store->ReadFrames(utterance, 0, MatrixView(features.data(), frames, feature_dim()));
  return features;
}

std::vector<int32_t> FrameStore::Labels(size_t utterance) const {
  std::vector<int32_t> labels(static_cast<size_t>(impl_->NumFrames(utterance)));
  impl_->store->ReadPdfIds(utterance, labels);
  return labels;
}

FrameStore::Moments FrameStore::FeatureMoments() const {
  data::FeatureMoments moments = data::EstimateMoments(*impl_->store, {}, impl_->store->num_frames());
  return {std::move(moments.mean), std::move(moments.inv_stddev)};
}

struct ANTIPHON_INTERNAL Minibatch::Impl {
  data::MinibatchBuffer buffer;
};

Minibatch::Minibatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Minibatch::~Minibatch() = default;
Minibatch::Minibatch(Minibatch&&) noexcept = default;
Minibatch& Minibatch::operator=(Minibatch&&) noexcept = default;

int64_t Minibatch::num_frames() const { return Alive(impl_, kMinibatch).buffer.minibatch.features.rows(); }
int64_t Minibatch::dim() const { return Alive(impl_, kMinibatch).buffer.minibatch.features.cols(); }
std::span<float> Minibatch::features() {
  const MatrixView features = Alive(impl_, kMinibatch).buffer.minibatch.features;
  CHECK(features.contiguous());
  return {features.data(), static_cast<size_t>(features.size())};
}
std::span<const int32_t> Minibatch::labels() const { return Alive(impl_, kMinibatch).buffer.minibatch.pdf_ids; }
std::span<const float> Minibatch::weights() const { return Alive(impl_, kMinibatch).buffer.minibatch.weights; }
std::span<const int64_t> Minibatch::frame_ids() const { return Alive(impl_, kMinibatch).buffer.minibatch.frame_ids; }

struct ANTIPHON_INTERNAL Minibatches::Impl {
  Impl(std::shared_ptr<const data::FrameStore> store, const data::MinibatchOptions& options,
       const MinibatchSettings& settings, int64_t its_epoch)
      : pool(std::make_shared<const data::MinibatchPool>(std::move(store), options, settings.seed, /*world_size=*/1,
                                                         settings.utterances)),
        epoch(its_epoch),
        size(pool->num_minibatches(epoch)),
        prefetch(settings.prefetch) {}
  // What is being prepared may wait for a server.
  ~Impl() { stop = true; }

  void Prepare() {
    while (prepared < size && std::ssize(ahead) <= prefetch) {
      const auto fill = [this, index = prepared] {
        const CancelScope scope(&stop);
        auto minibatch = std::make_unique<Minibatch::Impl>();
        pool->Fill(epoch, /*rank=*/0, index, minibatch->buffer);
        return minibatch;
      };
      try {
        ahead.push_back(std::async(std::launch::async, fill));
      } catch (const std::system_error&) {
        // The system gives no thread: who takes it makes it.
        if (!ahead.empty()) return;
        ahead.push_back(std::async(std::launch::deferred, fill));
      }
      ++prepared;
    }
  }

  std::shared_ptr<const data::MinibatchPool> pool;
  int64_t epoch;
  int64_t size;
  int prefetch;
  int64_t prepared = 0;
  std::atomic<bool> stop = false;
  std::deque<std::future<std::unique_ptr<Minibatch::Impl>>> ahead;
};

Minibatches::Minibatches(const FrameStore& store, const MinibatchSettings& settings, int64_t epoch) {
  if (epoch < 0) Throw<InputError>("epoch {}: they are counted from 0", epoch);
  if (settings.prefetch < 0 || settings.prefetch > 64) {
    Throw<InputError>("prefetch {}: expected 0 … 64 minibatches", settings.prefetch);
  }
  for (const size_t utterance : settings.utterances) store.impl_->NumFrames(utterance);
  data::MinibatchOptions options;
  options.minibatch = settings.minibatch;
  options.left_context = settings.left_context;
  options.right_context = settings.right_context;
  options.shuffle = settings.shuffle;
  options.distribution = data::Distribution::kPool;
  options.shards_at_once = settings.shards_at_once;
  // Through the description, which knows the ranges.
  options = ReadOptions<data::MinibatchOptions>(OptionsToConfig(options));
  impl_ = std::make_unique<Impl>(store.impl_->store, options, settings, epoch);
}
Minibatches::~Minibatches() = default;
Minibatches::Minibatches(Minibatches&&) noexcept = default;
Minibatches& Minibatches::operator=(Minibatches&&) noexcept = default;

int64_t Minibatches::size() const { return Alive(impl_, kMinibatches).size; }

std::optional<Minibatch> Minibatches::Next() {
  Impl& impl = Alive(impl_, kMinibatches);
  impl.Prepare();
  if (impl.ahead.empty()) return std::nullopt;
  auto next = std::move(impl.ahead.front());
  impl.ahead.pop_front();
  return Minibatch(next.get());
}

bool Minibatches::WaitForNext(std::chrono::milliseconds most) {
  Impl& impl = Alive(impl_, kMinibatches);
  impl.Prepare();
  return impl.ahead.empty() || impl.ahead.front().wait_for(most) != std::future_status::timeout;
}

}  // namespace antiphon
