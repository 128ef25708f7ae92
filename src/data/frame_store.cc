#include "data/frame_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "data/frame_store_format.h"
#include "data/live_features.h"
#include "data/shard_fetcher.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Passes over a whole store let go of what they have read, so that resident memory is not the store's size.
constexpr int64_t kReleaseFrames = 1 << 17;

std::string_view Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// The folder where the store lies. While it is being replaced it can stand aside for an instant.
HeldFolder HoldStore(const fs::path& folder) {
  for (const fs::path& place : {folder, internal::OldStore(folder), folder}) {
    for (bool in_place = false; !in_place;) {
      HeldFolder held(place);
      if (held.Has("store.json")) return held;
      in_place = held.InPlace();
    }
  }
  Throw<InputError>("'{}' is no frame store: there is no store.json in it; make one with 'antiphon store'",
                    folder.string());
}

}  // namespace

struct FrameStore::Impl {
  Impl(const HeldFolder& held, bool all_shards) : folder(held.path()) {
    const MappedFile json_file(held, "store.json");
    const std::string_view json = Text(json_file);
    header = WithContext([&] { return internal::HeaderFromJson(json); },
                         [&] { return fmt::format("'{}'", json_file.path().string()); });
    coding = header.frame_coding();
    fingerprint = Checksum(json);
    const MappedFile index(held, "index.bin");
    internal::IndexFromBytes(Text(index), index.path(), header, speakers, records);
    for (const internal::UtteranceRecord& r : records) utterances.push_back(r.utterance);
    if (!header.live.empty()) {
      live = std::make_unique<const LiveFeatures>(folder / internal::kLiveFolder, header, utterances, speakers);
    }
    for (size_t s = 0; s < header.shard_bytes.size(); ++s) {
      const std::string name = internal::ShardName(s);
      if (!all_shards && !held.Has(name)) {
        shards.emplace_back();
        continue;
      }
      shards.emplace_back(MappedFile(held, name));
      if (shards.back()->bytes().size() != header.shard_bytes[s]) {
        Throw<InputError>("'{}' has {} bytes, expected {}: it was cut short or replaced; make the store again",
                          shards.back()->path().string(), shards.back()->bytes().size(), header.shard_bytes[s]);
      }
    }
    verified = std::make_unique<std::atomic<bool>[]>(records.size());
    shard_data = std::make_unique<std::atomic<const std::byte*>[]>(shards.size());
    for (size_t i = 0; i < shards.size(); ++i) shard_data[i] = shards[i] ? shards[i]->bytes().data() : nullptr;
  }

  static std::unique_ptr<Impl> Open(const fs::path& folder, bool all_shards);

  const char* Data(size_t u) const {
    return reinterpret_cast<const char*>(shard_data[records[u].shard].load(std::memory_order_acquire)) +
           records[u].offset;
  }
  int32_t Pdf(size_t u, int64_t frame) const {
    return PdfAt(Data(u) + header.pdfs_offset(records[u].utterance.num_frames), frame);
  }
  int32_t PdfAt(const char* pdfs, int64_t frame) const {
    if (header.pdf_bytes() == 2) {
      uint16_t pdf = 0;
      std::memcpy(&pdf, pdfs + 2 * frame, sizeof pdf);
      return pdf;
    }
    int32_t pdf = 0;
    std::memcpy(&pdf, pdfs + 4 * frame, sizeof pdf);
    return pdf;
  }

  void EnsureVerified(size_t u) const {
    if (!verified[u].load(std::memory_order_relaxed)) VerifyNow(u);
  }
  void VerifyNow(size_t u) const;
  void VerifyAt(size_t u, std::span<const std::byte> shard, const fs::path& path) const;
  void VerifyShard(size_t shard, std::span<const std::byte> bytes, const fs::path& path) const;
  void RequireShard(size_t shard) const {
    if (shards.at(shard)) return;
    Throw<InputError>("'{}' is missing on this machine: copy it there, or the whole store",
                      (folder / internal::ShardName(shard)).string());
  }

  fs::path folder;
  internal::StoreHeader header;
  internal::FrameCoding coding{"uint8", 1};
  uint64_t fingerprint = 0;
  std::vector<std::string> speakers;
  std::vector<internal::UtteranceRecord> records;
  std::vector<Utterance> utterances;
  std::unique_ptr<const LiveFeatures> live;       // null: frames are held
  std::vector<std::optional<MappedFile>> shards;  // nullopt: on another machine
  // By shard, where it is read: in the original, or from some moment on in a copy.
  std::unique_ptr<std::atomic<const std::byte*>[]> shard_data;
  std::unique_ptr<ShardFetcher> fetcher;          // null: no cache
  std::unique_ptr<std::atomic<bool>[]> verified;  // by utterance
};

// A store that is put away while it is opened loses its files one by one; then the one in its place is opened.
std::unique_ptr<FrameStore::Impl> FrameStore::Impl::Open(const fs::path& folder, bool all_shards) {
  for (;;) {
    const HeldFolder held = HoldStore(folder);
    try {
      auto impl = std::make_unique<Impl>(held, all_shards);
      if (held.InPlace()) return impl;
    } catch (const Error&) {
      if (held.InPlace()) throw;
    }
  }
}

void FrameStore::Impl::VerifyNow(size_t u) const {
  RequireShard(records[u].shard);
  VerifyAt(u, {shard_data[records[u].shard].load(std::memory_order_acquire), header.shard_bytes[records[u].shard]},
           shards[records[u].shard]->path());
  verified[u].store(true, std::memory_order_relaxed);
}

void FrameStore::Impl::VerifyShard(size_t shard, std::span<const std::byte> bytes, const fs::path& path) const {
  for (size_t u = 0; u < records.size(); ++u) {
    if (records[u].shard == shard) VerifyAt(u, bytes, path);
  }
}

// The utterance's bytes in a shard's.
void FrameStore::Impl::VerifyAt(size_t u, std::span<const std::byte> shard, const fs::path& path) const {
  const internal::UtteranceRecord& r = records[u];
  const auto fail = [&](const std::string& what) {
    Throw<InputError>("'{}', byte {}, utterance '{}': {}; make the store again", path.string(), r.offset,
                      r.utterance.utt_id, what);
  };
  const std::span<const std::byte> bytes = shard.subspan(r.offset, header.utterance_bytes(r.utterance.num_frames));
  if (Checksum(bytes) != r.checksum) fail("the checksum is wrong: the file was changed or damaged");
  const auto* ranges = reinterpret_cast<const float*>(bytes.data());
  for (int c = 0; !live && c < 2 * header.feat_dim; ++c) {
    if (!std::isfinite(ranges[c])) fail("a column's range is not finite");
  }
  for (int64_t t = 0; t < r.utterance.num_frames; ++t) {
    const auto* pdfs = reinterpret_cast<const char*>(bytes.data()) + header.pdfs_offset(r.utterance.num_frames);
    if (const int32_t pdf = PdfAt(pdfs, t); pdf < 0 || pdf >= header.num_pdfs)
      fail(fmt::format("pdf-id {} is out of range", pdf));
  }
}

FrameStore::FrameStore(const fs::path& folder, bool all_shards) : impl_(Impl::Open(folder, all_shards)) {}
FrameStore::FrameStore(FrameStore&&) noexcept = default;
FrameStore::~FrameStore() = default;

void FrameStore::UseCache(const fs::path& folder, uint64_t limit_bytes) {
  const Impl* impl = impl_.get();
  impl_->fetcher = std::make_unique<ShardFetcher>(
      ShardCache(folder, fmt::format("{:016x}", impl->fingerprint), limit_bytes),
      [impl](size_t shard) {
        return ShardFetcher::Shard{
            internal::ShardName(shard), impl->folder / internal::ShardName(shard), impl->header.shard_bytes[shard],
            [impl, shard](std::span<const std::byte> bytes) { impl->VerifyShard(shard, bytes, "the copy"); }};
      },
      [impl](size_t shard, const std::byte* data) { impl->shard_data[shard].store(data, std::memory_order_release); });
}

void FrameStore::FetchAhead(std::span<const size_t> wanted) const {
  if (!impl_->fetcher) return;
  for (const size_t shard : wanted) {
    if (HasShard(shard) && impl_->header.shard_bytes[shard] > 0) impl_->fetcher->Ask(shard);
  }
}

size_t FrameStore::FinishFetching() const { return impl_->fetcher ? impl_->fetcher->Finish() : 0; }

int FrameStore::feat_dim() const { return impl_->header.feat_dim; }
int FrameStore::num_pdfs() const { return impl_->header.num_pdfs; }
int64_t FrameStore::num_frames() const { return impl_->header.num_frames; }
std::span<const FrameStore::Utterance> FrameStore::utterances() const { return impl_->utterances; }
std::span<const std::string> FrameStore::speakers() const { return impl_->speakers; }
bool FrameStore::labelled() const { return impl_->header.labelled; }
const std::string& FrameStore::description() const { return impl_->header.description; }
const fs::path& FrameStore::folder() const { return impl_->folder; }
uint64_t FrameStore::fingerprint() const { return impl_->fingerprint; }
const LiveFeatures* FrameStore::live() const { return impl_->live.get(); }
size_t FrameStore::num_shards() const { return impl_->shards.size(); }
size_t FrameStore::ShardOf(size_t utterance) const { return impl_->records.at(utterance).shard; }
bool FrameStore::HasShard(size_t shard) const { return impl_->shards.at(shard).has_value(); }
fs::path FrameStore::ShardFile(size_t shard) const { return impl_->folder / internal::ShardName(shard); }

void FrameStore::ReadFrames(size_t utterance, int first, MatrixView out) const {
  const int num_frames = impl_->records.at(utterance).utterance.num_frames;
  if (out.cols() != feat_dim() || first < 0 || out.rows() > num_frames - first) {
    Throw<ShapeError>("frames {} … {} of {} columns wanted, utterance '{}' has {} of {}", first, first + out.rows() - 1,
                      out.cols(), impl_->utterances[utterance].utt_id, num_frames, feat_dim());
  }
  if (impl_->live) {
    const std::string made = impl_->live->Make(utterance);
    return impl_->coding.Decode(made.data(), first, out.rows(), out.data(), out.stride());
  }
  impl_->EnsureVerified(utterance);
  impl_->coding.Decode(impl_->Data(utterance), first, out.rows(), out.data(), out.stride());
}

void FrameStore::ReadSpliced(size_t utterance, int frame, Context context, float* out) const {
  const int64_t num_frames = impl_->records[utterance].utterance.num_frames;
  DCHECK(frame >= 0 && frame < num_frames);
  DCHECK(!impl_->live);
  impl_->EnsureVerified(utterance);
  impl_->coding.Splice(impl_->Data(utterance), num_frames, frame, context, out);
}

int32_t FrameStore::PdfId(size_t utterance, int frame) const {
  DCHECK(frame >= 0 && frame < impl_->records[utterance].utterance.num_frames);
  impl_->EnsureVerified(utterance);
  return impl_->Pdf(utterance, frame);
}

void FrameStore::ReadPdfIds(size_t utterance, std::span<int32_t> out) const {
  const int32_t num_frames = impl_->records.at(utterance).utterance.num_frames;
  if (std::ssize(out) != num_frames)
    Throw<ShapeError>("room for {} pdf-ids, the utterance has {}", out.size(), num_frames);
  impl_->EnsureVerified(utterance);
  for (int32_t t = 0; t < num_frames; ++t) out[static_cast<size_t>(t)] = impl_->Pdf(utterance, t);
}

void FrameStore::Verify(size_t utterance) const { impl_->EnsureVerified(utterance); }

void FrameStore::ReleasePages() const {
  for (size_t shard = 0; shard < impl_->shards.size(); ++shard) {
    if (!impl_->shards[shard] || impl_->header.shard_bytes[shard] == 0) continue;
    const std::byte* data = impl_->shard_data[shard].load(std::memory_order_acquire);
    // Only a hint: a failure costs memory, nothing else.
    (void)::madvise(const_cast<std::byte*>(data), impl_->header.shard_bytes[shard], MADV_DONTNEED);
  }
}

std::vector<int64_t> FrameStore::CountPdfs(std::span<const size_t> chosen) const {
  std::vector<int64_t> counts(static_cast<size_t>(num_pdfs()), 0);
  const size_t n = chosen.empty() ? utterances().size() : chosen.size();
  int64_t frames = 0;
  for (size_t k = 0; k < n; ++k) {
    const size_t u = chosen.empty() ? k : chosen[k];
    if ((frames += utterances()[u].num_frames) > kReleaseFrames) {
      ReleasePages();
      frames = 0;
    }
    impl_->EnsureVerified(u);
    for (int32_t t = 0; t < utterances()[u].num_frames; ++t) ++counts[static_cast<size_t>(impl_->Pdf(u, t))];
  }
  return counts;
}

FeatureMoments EstimateMoments(const FrameStore& store, std::span<const size_t> chosen, int64_t max_frames,
                               int num_threads) {
  std::vector<size_t> utterances(chosen.begin(), chosen.end());
  if (chosen.empty()) {
    for (size_t u = 0; u < store.utterances().size(); ++u) utterances.push_back(u);
  }
  int64_t frames = 0;
  for (const size_t u : utterances) frames += store.utterances()[u].num_frames;
  if (frames == 0) Throw<InputError>("'{}' has no frames to estimate moments from", store.folder().string());
  const auto stride = static_cast<size_t>(std::max<int64_t>(1, frames / std::max<int64_t>(1, max_frames)));
  const size_t count = (utterances.size() + stride - 1) / stride;

  const auto dim = static_cast<size_t>(store.feat_dim());
  struct Sums {
    double frames = 0.0;
    std::vector<double> x, xx;
  };
  Sums total{0.0, std::vector<double>(dim, 0.0), std::vector<double>(dim, 0.0)};
  double released = 0.0;
  ParallelInOrder<Sums>(
      count, num_threads,
      [&](size_t k) {
        const size_t u = utterances[k * stride];
        Matrix m(store.utterances()[u].num_frames, store.feat_dim());
        store.ReadFrames(u, 0, m);
        Sums sums{static_cast<double>(m.rows()), std::vector<double>(dim, 0.0), std::vector<double>(dim, 0.0)};
        for (int64_t r = 0; r < m.rows(); ++r) {
          const float* row = m.Row(r).data();
          for (size_t c = 0; c < dim; ++c) {
            sums.x[c] += row[c];
            sums.xx[c] += static_cast<double>(row[c]) * row[c];
          }
        }
        return sums;
      },
      [&](size_t, Sums&& sums) {
        total.frames += sums.frames;
        for (size_t c = 0; c < dim; ++c) {
          total.x[c] += sums.x[c];
          total.xx[c] += sums.xx[c];
        }
        if (total.frames - released > kReleaseFrames) {
          store.ReleasePages();
          released = total.frames;
        }
      });
  FeatureMoments moments;
  for (size_t c = 0; c < dim; ++c) {
    const double mean = total.x[c] / total.frames;
    const double variance = std::max(total.xx[c] / total.frames - mean * mean, 1e-10);
    moments.mean.push_back(static_cast<float>(mean));
    moments.inv_stddev.push_back(static_cast<float>(1.0 / std::sqrt(variance)));
  }
  return moments;
}

}  // namespace antiphon::data
