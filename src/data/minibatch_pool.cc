#include "data/minibatch_pool.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "data/epoch_plan.h"
#include "data/shard_groups.h"
#include "data/utterance_order.h"

namespace antiphon::data {
namespace {

using internal::FrameRef;
using internal::ShareOrder;

struct Epoch {
  int64_t number = -1;
  std::vector<ShareOrder> shares;
};

struct Window {
  int64_t epoch = -1;
  size_t share = 0;
  size_t index = 0;
  std::vector<FrameRef> frames;
  std::unordered_map<uint32_t, FeatureMaker::Handle> made;  // by utterance, of a live store
  bool Is(int64_t number, size_t its_share, size_t its_index) const {
    return epoch == number && share == its_share && index == its_index;
  }
};

MinibatchOptions Chosen(MinibatchOptions options, const FrameStore& store) {
  if (options.distribution == Distribution::kAuto) options.distribution = Distribution::kPool;
  if (store.live() != nullptr) {
    options.block_frames = std::numeric_limits<int>::max();
  } else if (options.augment.any()) {
    Throw<UsageError>(
        "data.augment varies recordings, but '{}' holds features: make it with antiphon store --live, or leave "
        "data.augment out",
        store.folder().string());
  }
  return options;
}

}  // namespace

struct MinibatchPool::Impl {
  Impl(std::shared_ptr<const FrameStore> s, MinibatchOptions o, uint64_t run_seed, int world,
       std::vector<size_t> chosen, const InputNormalisation& normalisation, TimeContext frames_needed, Mixing mixed)
      : store(std::move(s)),
        options(Chosen(std::move(o), *store)),
        context{options.left_context, options.right_context},
        seed(run_seed),
        world_size(world),
        needed(frames_needed),
        utterances(std::move(chosen)),
        mixing(std::move(mixed)),
        schedule(*store, options.distribution == Distribution::kPool ? 1 : static_cast<size_t>(std::max(1, world))) {
    if (world_size < 1) Throw<UsageError>("expected at least one worker, not {}", world_size);
    if (utterances.empty()) {
      std::vector<bool> mixed_in(store->utterances().size(), false);
      for (const size_t u : mixing.utterances) mixed_in.at(u) = true;
      for (size_t u = 0; u < mixed_in.size(); ++u) {
        if (!mixed_in[u]) utterances.push_back(u);
      }
    }
    if (!mixing.utterances.empty() && options.distribution != Distribution::kPool) {
      throw UsageError("speech is mixed into the common order: data.distribution must be 'pool'");
    }
    if (!mixing.utterances.empty() && options.shards_at_once > 0) {
      throw UsageError("speech is mixed into the order of all shards: leave data.shards-at-once out");
    }
    internal::RequireRoom(*store, utterances, options);
    num_frames = store->CountFrames(utterances);
    if (num_frames == 0) Throw<InputError>("'{}' has no frames to train on", store->folder().string());
    // So that the order of the store plays no part.
    if (options.shuffle) internal::SortById(*store, utterances);
    if (!needed.one_to_one() && options.chunk_frames == 0) {
      throw UsageError(
          "the network looks at several frames of an utterance: set data.chunk-frames, the consecutive frames that "
          "minibatches are made of");
    }
    if (options.other_chunk_frames.empty()) {
      if (options.chunk_frames % needed.stride != 0) {
        Throw<UsageError>("data.chunk-frames = {} is no multiple of {}, the frames per output of the network",
                          options.chunk_frames, needed.stride);
      }
    } else if (options.chunk_frames == 0) {
      throw UsageError("data.other-chunk-frames are widths beside data.chunk-frames, which is missing: give it too");
    } else if (options.carry_state) {
      throw UsageError(
          "data.other-chunk-frames leaves frames out between chunks, and states that are carried on need all: set "
          "data.carry-state to false, or leave it out");
    }
    if (options.chunk_frames > 0 && options.carry_state && options.distribution == Distribution::kPool &&
        world_size > 1) {
      throw UsageError(
          "data.carry-state needs workers that keep their utterances: set data.distribution to 'shares' or 'shards', "
          "or data.carry-state to false");
    }
    if (const LiveFeatures* live = store->live()) maker = live->Maker(options.augment, options.feature_threads, seed);
    mean = Expand(normalisation.mean, "mean");
    scale = Expand(normalisation.scale, "scale");
    if (mean.empty() != scale.empty()) Throw<UsageError>("a normalisation needs both a mean and a scale");
  }

  int64_t spliced_dim() const { return int64_t{store->feat_dim()} * context.width(); }

  // A value per feature column is repeated for each context frame.
  std::vector<float> Expand(const std::vector<float>& values, std::string_view what) const {
    const auto dim = static_cast<size_t>(spliced_dim());
    if (values.empty() || values.size() == dim) return values;
    if (values.size() != static_cast<size_t>(store->feat_dim())) {
      Throw<ShapeError>("normalisation {} of {} values; expected {} or {}", what, values.size(), store->feat_dim(),
                        dim);
    }
    std::vector<float> expanded;
    for (int k = 0; k < context.width(); ++k) expanded.insert(expanded.end(), values.begin(), values.end());
    return expanded;
  }

  std::shared_ptr<const Epoch> GetEpoch(int64_t number) const {
    const std::lock_guard lock(epoch_mutex);
    for (const auto& epoch : epochs) {
      if (epoch->number == number) return epoch;
    }
    auto epoch = std::make_shared<Epoch>();
    epoch->number = number;
    epoch->shares = internal::PlanEpoch(*store, utterances, options, seed, number, world_size, needed.stride, mixing);
    epochs.push_back(epoch);
    if (epochs.size() > 2) epochs.pop_front();
    return epoch;
  }

  // The share that a rank reads from.
  size_t ShareOf(int rank) const {
    CHECK(rank >= 0 && rank < world_size) << "rank " << rank << " of " << world_size;
    return options.distribution == Distribution::kPool ? 0 : static_cast<size_t>(rank);
  }

  std::shared_ptr<Window> MakeWindow(const Epoch& epoch, size_t share, size_t index) const {
    auto window = std::make_shared<Window>();
    window->epoch = epoch.number;
    window->share = share;
    window->index = index;
    const ShareOrder& order = epoch.shares[share];
    if (order.minibatch_block.empty()) internal::FillWindow(order, index, options.shuffle, window->frames);
    if (!maker) return window;
    std::vector<uint32_t> wanted;
    for (size_t b = order.window_block[index]; b < order.window_block[index + 1]; ++b) {
      const internal::Block& block = order.blocks[b];
      if (block.count > 0 && window->made.try_emplace(block.utterance).second) wanted.push_back(block.utterance);
    }
    const std::vector<FeatureMaker::Handle> handles = maker->Ask(epoch.number, wanted);
    for (size_t i = 0; i < wanted.size(); ++i) window->made[wanted[i]] = handles[i];
    return window;
  }

  // The window behind one that is begun, so that its features are there when it is.
  std::shared_ptr<Window> MakeNext(const Epoch& epoch, size_t share, size_t index) const {
    if (index + 2 < epoch.shares[share].window_block.size()) return MakeWindow(epoch, share, index + 1);
    if (!options.shuffle || epoch.number + 1 >= mixing.epochs) return nullptr;
    const std::shared_ptr<const Epoch> next = GetEpoch(epoch.number + 1);
    return next->shares[share].blocks.empty() ? nullptr : MakeWindow(*next, share, 0);
  }

  std::shared_ptr<const Window> GetWindow(const Epoch& epoch, size_t share, size_t index) const {
    const std::lock_guard lock(window_mutex);
    for (size_t i = 0; i < windows.size(); ++i) {
      if (!windows[i]->Is(epoch.number, share, index)) continue;
      std::rotate(windows.begin(), windows.begin() + static_cast<std::ptrdiff_t>(i),
                  windows.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return windows.front();
    }
    // Two per share: a minibatch may reach over the border of two. Readers keep what they still need. A live store's
    // windows hold features, and a pool that reads one is one worker's.
    const ShareOrder& order = epoch.shares[share];
    schedule.Reach(epoch.number, share, order, order.window_block[index - std::min<size_t>(index, 1)],
                   order.window_block[index]);
    const size_t most = maker ? 2 : 2 * epoch.shares.size() + 2;
    while (windows.size() >= most) windows.pop_back();
    if (ahead && ahead->Is(epoch.number, share, index)) {
      windows.push_front(std::move(ahead));
    } else {
      windows.push_front(MakeWindow(epoch, share, index));
    }
    if (maker) ahead = MakeNext(epoch, share, index);
    // What earlier windows read is not needed any more: resident memory stays that of a window, whatever the store's
    // size.
    store->ReleasePages();
    return windows.front();
  }

  void ReadFeatures(FrameRef ref, const Window* window, int64_t row, MinibatchBuffer& b) const {
    float* out = b.features_.data() + row * b.features_.cols();
    if (maker) {
      const char* coded = maker->Frames(window->made.at(ref.utterance));
      const int32_t frames = store->utterances()[ref.utterance].num_frames;
      store->live()->coding().Splice(coded, frames, ref.frame, context, out);
    } else {
      store->ReadSpliced(ref.utterance, ref.frame, context, out);
    }
    for (size_t c = 0; c < mean.size(); ++c) out[c] = (out[c] - mean[c]) * scale[c];
  }

  void SetTarget(FrameRef ref, int64_t row, MinibatchBuffer& b) const {
    const FrameStore::Utterance& u = store->utterances()[ref.utterance];
    const auto r = static_cast<size_t>(row);
    b.pdf_ids_[r] = store->PdfId(ref.utterance, ref.frame);
    b.weights_[r] = u.weight;
    b.frame_ids_[r] = u.first_frame + ref.frame;
  }

  void Resize(int64_t rows, int64_t outputs, MinibatchBuffer& b) const {
    b.features_.Resize(rows, spliced_dim());
    const auto n = static_cast<size_t>(outputs);
    b.pdf_ids_.resize(n);
    b.weights_.resize(n);
    b.frame_ids_.resize(n);
  }

  void FillFrames(const Epoch& epoch, size_t share, int64_t index, MinibatchBuffer& b) const {
    const ShareOrder& order = epoch.shares[share];
    const int64_t begin = index * options.minibatch;
    const int64_t end = std::min(begin + options.minibatch, order.num_frames);
    Resize(end - begin, end - begin, b);
    const auto& starts = order.window_frame;
    size_t w = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) - 1;
    for (int64_t at = begin; at < end; ++w) {
      const std::shared_ptr<const Window> window = GetWindow(epoch, share, w);
      for (const int64_t stop = std::min(end, starts[w + 1]); at < stop; ++at) {
        const FrameRef frame = window->frames[static_cast<size_t>(at - starts[w])];
        ReadFeatures(frame, window.get(), at - begin, b);
        SetTarget(frame, at - begin, b);
      }
    }
  }

  // One stream's chunk. Frames that lie beyond the utterance's ends are its first or last one; so are those of padding.
  void FillStream(const internal::Block& block, const Window* window, int stream, MinibatchBuffer& b) const {
    const SequenceLayout& layout = b.layout_;
    const int last = block.count > 0 ? store->utterances()[block.utterance].num_frames - 1 : 0;
    for (int t = 0; t < needed.InputFrames(layout.frames); ++t) {
      const int64_t row = int64_t{t} * layout.streams + stream;
      if (block.count > 0) {
        ReadFeatures({block.utterance, std::clamp(block.first + t - needed.left, 0, last)}, window, row, b);
      } else {
        std::fill_n(b.features_.data() + row * b.features_.cols(), b.features_.cols(), 0.0f);
      }
    }
    const int length = (block.count + needed.stride - 1) / needed.stride;
    b.lengths_[static_cast<size_t>(stream)] = length;
    b.begins_[static_cast<size_t>(stream)] = !options.carry_state || block.first < needed.stride ? 1 : 0;
    for (int t = 0; t < layout.frames; ++t) {
      const int64_t row = int64_t{t} * layout.streams + stream;
      if (t < length) {
        SetTarget({block.utterance, block.first + t * needed.stride}, row, b);
        continue;
      }
      b.pdf_ids_[static_cast<size_t>(row)] = 0;
      b.weights_[static_cast<size_t>(row)] = 0;
      b.frame_ids_[static_cast<size_t>(row)] = -1;
    }
  }

  void FillChunks(const Epoch& epoch, size_t share, int64_t index, MinibatchBuffer& b) const {
    constexpr int64_t kReadTogether = 64;  // minibatches, by the workers of a process
    const ShareOrder& order = epoch.shares[share];
    schedule.Reach(epoch.number, share, order,
                   order.minibatch_block[static_cast<size_t>(std::max<int64_t>(0, index - kReadTogether))],
                   order.minibatch_block[static_cast<size_t>(index)]);
    const size_t begin = order.minibatch_block[static_cast<size_t>(index)];
    const size_t end = order.minibatch_block[static_cast<size_t>(index) + 1];
    const auto streams = static_cast<int>(end - begin);
    int32_t longest = 0;
    for (size_t k = begin; k < end; ++k) longest = std::max(longest, order.blocks[k].count);
    const int frames = (longest + needed.stride - 1) / needed.stride;
    Resize(needed.InputFrames(frames) * streams, int64_t{frames} * streams, b);
    b.begins_.resize(static_cast<size_t>(streams));
    b.lengths_.resize(static_cast<size_t>(streams));
    b.layout_ = {streams, frames, b.begins_, b.lengths_};
    b.chunks_.clear();
    std::shared_ptr<const Window> window;
    if (maker) {
      const auto& starts = order.window_block;
      const auto behind = std::upper_bound(starts.begin(), starts.end(), begin);
      window = GetWindow(epoch, share, static_cast<size_t>(behind - starts.begin()) - 1);
    }
    for (int s = 0; s < streams; ++s) {
      const internal::Block& block = order.blocks[begin + static_cast<size_t>(s)];
      b.chunks_.push_back({block.utterance, block.first, block.count});
      FillStream(block, window.get(), s, b);
    }
    // Chunks of features that are held have no windows; count minibatches instead.
    constexpr int64_t kReleaseInterval = 1024;
    if (index % kReleaseInterval == 0) store->ReleasePages();
  }

  const std::shared_ptr<const FrameStore> store;
  const MinibatchOptions options;
  const Context context;
  const uint64_t seed;
  const int world_size;
  const TimeContext needed;
  std::vector<size_t> utterances;
  Mixing mixing;
  mutable internal::ShardSchedule schedule;
  int64_t num_frames = 0;
  std::vector<float> mean;
  std::vector<float> scale;

  mutable std::mutex epoch_mutex;
  mutable std::deque<std::shared_ptr<const Epoch>> epochs;
  mutable std::mutex window_mutex;
  mutable std::deque<std::shared_ptr<Window>> windows;  // used last first
  std::shared_ptr<FeatureMaker> maker;                  // null: features are held
  mutable std::shared_ptr<Window> ahead;                // of a live store; null: none
};

MinibatchPool::MinibatchPool(std::shared_ptr<const FrameStore> store, MinibatchOptions options, uint64_t seed,
                             int world_size, std::vector<size_t> utterances, const InputNormalisation& normalisation,
                             TimeContext needed, Mixing mixing)
    : impl_(std::make_unique<Impl>(std::move(store), std::move(options), seed, world_size, std::move(utterances),
                                   normalisation, needed, std::move(mixing))) {}
MinibatchPool::~MinibatchPool() = default;

int MinibatchPool::spliced_dim() const { return static_cast<int>(impl_->spliced_dim()); }
int64_t MinibatchPool::num_frames() const { return impl_->num_frames; }
int64_t MinibatchPool::num_frames(int64_t epoch) const {
  int64_t frames = 0;
  for (const ShareOrder& share : impl_->GetEpoch(epoch)->shares) frames += share.num_frames;
  return frames;
}
std::vector<double> MinibatchPool::MixedShares(int64_t epoch, int parts) const {
  const auto plan = impl_->GetEpoch(epoch);
  const ShareOrder& order = plan->shares.front();
  std::vector<bool> mixed_in(impl_->store->utterances().size(), false);
  for (const size_t u : impl_->mixing.utterances) mixed_in[u] = true;
  std::vector<double> mixed(static_cast<size_t>(parts)), all(mixed);
  int64_t at = 0;
  for (const internal::Block& block : order.blocks) {
    if (block.count == 0) continue;  // of a stream that has ended
    // Blocks are short beside a part, and shuffled with their neighbours anyway.
    const auto part = static_cast<size_t>(at * parts / std::max<int64_t>(1, order.num_frames));
    all[part] += block.count;
    if (mixed_in[block.utterance]) mixed[part] += block.count;
    at += block.count;
  }
  for (size_t i = 0; i < all.size(); ++i) mixed[i] = all[i] > 0 ? mixed[i] / all[i] : 0;
  return mixed;
}

int MinibatchPool::world_size() const { return impl_->world_size; }
const MinibatchOptions& MinibatchPool::options() const { return impl_->options; }
bool MinibatchPool::is_remote() const { return impl_->store->is_remote(); }

std::vector<size_t> MinibatchPool::UtterancesOf(int rank) const {
  if (impl_->options.distribution != Distribution::kShards) return impl_->utterances;
  return internal::DealShards(*impl_->store, impl_->utterances, impl_->world_size).at(static_cast<size_t>(rank));
}

std::vector<size_t> MinibatchPool::FirstUtterancesOf(int rank) const {
  if (impl_->options.shards_at_once == 0 || !impl_->options.shuffle) return UtterancesOf(rank);
  const std::shared_ptr<const Epoch> plan = impl_->GetEpoch(0);
  const std::vector<std::vector<size_t>>& groups = plan->shares[impl_->ShareOf(rank)].group_shards;
  if (groups.empty()) return UtterancesOf(rank);
  std::vector<size_t> first;
  for (const size_t u : UtterancesOf(rank)) {
    const size_t shard = impl_->store->ShardOf(u);
    if (std::find(groups.front().begin(), groups.front().end(), shard) != groups.front().end()) first.push_back(u);
  }
  return first;
}

int64_t MinibatchPool::num_minibatches(int64_t epoch, int rank) const {
  return impl_->GetEpoch(epoch)->shares[impl_->ShareOf(rank)].num_minibatches;
}

double MinibatchPool::Fullness(int64_t epoch, int rank, int64_t index) const {
  const std::shared_ptr<const Epoch> plan = impl_->GetEpoch(epoch);
  const ShareOrder& order = plan->shares[impl_->ShareOf(rank)];
  if (index < 0 || index >= order.num_minibatches) return 0;
  const int64_t whole = std::min<int64_t>(impl_->options.minibatch, order.num_frames);
  if (impl_->options.chunk_frames > 0 || index + 1 < order.num_minibatches) return 1;
  return static_cast<double>(order.num_frames - index * impl_->options.minibatch) / static_cast<double>(whole);
}

int64_t MinibatchPool::Frames(int64_t epoch, int rank, int64_t index) const {
  const std::shared_ptr<const Epoch> plan = impl_->GetEpoch(epoch);
  const ShareOrder& order = plan->shares[impl_->ShareOf(rank)];
  if (index < 0 || index >= order.num_minibatches) return 0;
  const MinibatchOptions& options = impl_->options;
  if (options.chunk_frames == 0) {
    return std::min<int64_t>(options.minibatch, order.num_frames - index * options.minibatch);
  }
  const int stride = impl_->needed.stride;
  int64_t frames = 0;
  for (size_t k = order.minibatch_block[static_cast<size_t>(index)];
       k < order.minibatch_block[static_cast<size_t>(index) + 1]; ++k) {
    frames += (order.blocks[k].count + stride - 1) / stride;
  }
  return frames;
}

int64_t MinibatchPool::steps_per_epoch(int64_t epoch) const {
  if (impl_->options.distribution == Distribution::kPool) {
    return (num_minibatches(epoch) + impl_->world_size - 1) / impl_->world_size;
  }
  int64_t steps = 0;
  for (const ShareOrder& share : impl_->GetEpoch(epoch)->shares) steps = std::max(steps, share.num_minibatches);
  return steps;
}

void MinibatchPool::Fill(int64_t epoch, int rank, int64_t index, MinibatchBuffer& b) const {
  const std::shared_ptr<const Epoch> plan = impl_->GetEpoch(epoch);
  const size_t share = impl_->ShareOf(rank);
  const ShareOrder& order = plan->shares[share];
  const bool in_chunks = impl_->options.chunk_frames > 0;
  if (index < 0 || index >= order.num_minibatches) {
    impl_->Resize(0, 0, b);
    b.layout_ = {};
    b.chunks_.clear();
    index = -1;
  } else if (in_chunks) {
    impl_->FillChunks(*plan, share, index, b);
  } else {
    impl_->FillFrames(*plan, share, index, b);
  }
  const auto padding = std::count(b.frame_ids_.begin(), b.frame_ids_.end(), int64_t{-1});
  b.minibatch = {index,
                 std::ssize(b.frame_ids_) - padding,
                 b.features_.view(),
                 b.pdf_ids_,
                 b.weights_,
                 b.frame_ids_,
                 in_chunks ? &b.layout_ : nullptr,
                 b.chunks_,
                 Fullness(epoch, rank, index)};
}

}  // namespace antiphon::data
