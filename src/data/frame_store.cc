#include "data/frame_store.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/cancel.h"
#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/release_pages.h"
#include "data/frame_store_format.h"
#include "data/live_features.h"
#include "data/remote_folder.h"
#include "data/shard_fetcher.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

// Passes over a whole store let go of what they have read, so that resident memory is not the store's size.
constexpr int64_t kReleaseFrames = 1 << 17;
// Room for more shards than any store has.
constexpr uint64_t kMostHeaderBytes = 1 << 28;

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string_view Text(const MappedFile& file) { return Text(file.bytes()); }

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
  Impl(const HeldFolder& held, const FrameStoreAccess& access) : folder(held.path()) {
    const MappedFile json_file(held, "store.json");
    TakeHeader(Text(json_file), json_file.path().string());
    const MappedFile index_file(held, "index.bin");
    index = internal::IndexFromBytes(Text(index_file), index_file.path().string(), header);
    if (!header.live.empty()) {
      live = std::make_unique<const LiveFeatures>(folder / internal::kLiveFolder, header, index.utterances,
                                                  index.speakers);
    }
    MapShards(held, access.all_shards);
    if (!access.cache.cache_dir.empty()) UseCache(access.cache);
  }
  /// On a server.
  Impl(const fs::path& address, const FrameStoreAccess& access) : folder(address) {
    const ShardCacheOptions& cache = access.cache;
    if (cache.cache_dir.empty() && !access.index_only) {
      Throw<UsageError>(
          "the store '{}' lies on a server: set data.cache-dir to a folder of this machine, into which its shards are "
          "fetched",
          address.string());
    }
    remote = std::make_unique<RemoteFolder>(address.string(), cache.fetch);
    TakeHeader(remote->Read("store.json", kMostHeaderBytes, &CancelRequested), remote->UrlOf("store.json"));
    if (!header.live.empty()) {
      Throw<InputError>("'{}' is a live store, which makes features of recordings on this machine: copy it here",
                        address.string());
    }
    cache.cache_dir.empty() ? FetchIndex() : FetchIndex(cache);
    shards.resize(header.shard_bytes.size());
    verified = std::make_unique<std::atomic<bool>[]>(index.places.size());
    if (!cache.cache_dir.empty()) UseCache(cache);
  }

  // What a fork copied without its thread cannot be ended; the connection is the other process's.
  ~Impl() {
    if (!fetcher || !fetcher->forked()) return;
    (void)fetcher.release();
    (void)remote.release();
  }

  static std::unique_ptr<Impl> Open(const fs::path& folder, const FrameStoreAccess& access);

  void TakeHeader(std::string_view json, const std::string& name) {
    header = WithContext([&] { return internal::HeaderFromJson(json); }, [&] { return fmt::format("'{}'", name); });
    coding = header.frame_coding();
    fingerprint = Checksum(json);
  }
  void MapShards(const HeldFolder& held, bool all_shards);
  void FetchIndex();
  void FetchIndex(const ShardCacheOptions& cache);
  std::string CacheKey() const { return fmt::format("{:016x}", fingerprint); }
  void UseCache(const ShardCacheOptions& cache);

  // An utterance's bytes, verified, for as long as this lives.
  class Reading {
   public:
    Reading(ShardFetcher::Loan loan, const char* data) : loan_(std::move(loan)), data_(data) {}
    const char* data() const { return data_; }

   private:
    ShardFetcher::Loan loan_;
    const char* data_;
  };
  Reading Read(size_t u) const {
    if (fetcher) return ReadThroughCache(u);
    if (!verified[u].load(std::memory_order_relaxed)) VerifyOriginal(u);
    return {{}, InOriginal(u)};
  }
  Reading ReadThroughCache(size_t u) const;
  const char* InOriginal(size_t u) const {
    const internal::UtterancePlace& place = index.places[u];
    return reinterpret_cast<const char*>(shards[place.shard]->bytes().data()) + place.offset;
  }

  int64_t NumFrames(size_t u) const { return index.utterances[u].num_frames; }
  int32_t PdfAt(const char* data, size_t u, int64_t frame) const {
    const char* const pdfs = data + header.pdfs_offset(NumFrames(u));
    if (header.pdf_bytes() == 2) {
      uint16_t pdf = 0;
      std::memcpy(&pdf, pdfs + 2 * frame, sizeof pdf);
      return pdf;
    }
    int32_t pdf = 0;
    std::memcpy(&pdf, pdfs + 4 * frame, sizeof pdf);
    return pdf;
  }

  void VerifyOriginal(size_t u) const;
  void VerifyAt(size_t u, std::span<const std::byte> shard, const std::string& name) const;
  void VerifyShard(size_t shard, std::span<const std::byte> bytes) const;
  std::string NameOf(size_t shard) const {
    const std::string name = internal::ShardName(shard);
    return remote ? remote->UrlOf(name) : (folder / name).string();
  }

  fs::path folder;
  internal::StoreHeader header;
  internal::FrameCoding coding{"uint8", 1};
  uint64_t fingerprint = 0;
  internal::StoreIndex index;
  std::unique_ptr<const LiveFeatures> live;       // null: frames are held
  std::vector<std::optional<MappedFile>> shards;  // nullopt: on another machine
  std::unique_ptr<std::atomic<bool>[]> verified;  // by utterance, in the originals
  std::unique_ptr<RemoteFolder> remote;           // null: a folder
  std::vector<std::vector<uint32_t>> in_shard;    // utterances; with a cache
  std::unique_ptr<ShardFetcher> fetcher;          // null: no cache
};

// A store that is put away while it is opened loses its files one by one; then the one in its place is opened.
std::unique_ptr<FrameStore::Impl> FrameStore::Impl::Open(const fs::path& folder, const FrameStoreAccess& access) {
  if (IsRemote(folder.native())) {
    return WithContext([&] { return std::make_unique<Impl>(folder, access); },
                       [&] { return fmt::format("opening the frame store '{}'", folder.string()); });
  }
  for (;;) {
    const HeldFolder held = HoldStore(folder);
    try {
      auto impl = std::make_unique<Impl>(held, access);
      if (held.InPlace()) return impl;
    } catch (const Error&) {
      if (held.InPlace()) throw;
    }
  }
}

void FrameStore::Impl::MapShards(const HeldFolder& held, bool all_shards) {
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
  verified = std::make_unique<std::atomic<bool>[]>(index.places.size());
}

void FrameStore::Impl::FetchIndex() {
  const std::string bytes = remote->Read("index.bin", header.index_bytes, &CancelRequested);
  index = internal::IndexFromBytes(bytes, remote->UrlOf("index.bin"), header);
}

void FrameStore::Impl::FetchIndex(const ShardCacheOptions& cache) {
  const auto fill = [&](int target, const fs::path& path) {
    remote->Fetch("index.bin", header.index_bytes, target, path, &CancelRequested);
  };
  const auto verify = [&](std::span<const std::byte> bytes) {
    if (Checksum(bytes) == header.index_checksum) return;
    Throw<InputError>("'{}': the checksum is wrong: the file was changed or damaged", remote->UrlOf("index.bin"));
  };
  const ShardCache files(cache.cache_dir, CacheKey(), cache.limit_bytes());
  const auto file = files.Take({"index.bin", header.index_bytes, fill, verify}, &CancelRequested);
  if (!file) {
    Throw<InputError>("the cache '{}' is full of files in use: raise data.cache-limit-gb", cache.cache_dir);
  }
  index = internal::IndexFromBytes(Text(file->bytes()), remote->UrlOf("index.bin"), header);
}

void FrameStore::Impl::UseCache(const ShardCacheOptions& cache) {
  in_shard.resize(header.shard_bytes.size());
  for (size_t u = 0; u < index.places.size(); ++u) {
    in_shard[index.places[u].shard].push_back(static_cast<uint32_t>(u));
  }
  ShardFetcher::Source source;
  source.has_originals = remote == nullptr;
  source.name = [this](size_t shard) { return NameOf(shard); };
  source.describe = [this](size_t shard, const std::function<bool()>& stop) {
    const std::string name = internal::ShardName(shard);
    const uint64_t bytes = header.shard_bytes[shard];
    CacheEntry entry{name, bytes, {}, [this, shard](std::span<const std::byte> b) { VerifyShard(shard, b); }};
    if (remote) {
      entry.fill = [=, this](int target, const fs::path& path) { remote->Fetch(name, bytes, target, path, stop); };
    } else {
      entry.fill = CopyOf(folder / name, bytes, stop);
    }
    return entry;
  };
  fetcher = std::make_unique<ShardFetcher>(ShardCache(cache.cache_dir, CacheKey(), cache.limit_bytes()), shards.size(),
                                           std::move(source));
}

FrameStore::Impl::Reading FrameStore::Impl::ReadThroughCache(size_t u) const {
  const internal::UtterancePlace& place = index.places[u];
  ShardFetcher::Loan loan = fetcher->Lend(place.shard);
  if (loan.data() == nullptr && !remote) {
    if (!verified[u].load(std::memory_order_relaxed)) VerifyOriginal(u);
    return {std::move(loan), InOriginal(u)};
  }
  if (loan.data() != nullptr) {
    const char* const data = reinterpret_cast<const char*>(loan.data()) + place.offset;
    return {std::move(loan), data};
  }
  ShardFetcher::Loan awaited = fetcher->Await(place.shard);
  const char* const data = reinterpret_cast<const char*>(awaited.data()) + place.offset;
  return {std::move(awaited), data};
}

void FrameStore::Impl::VerifyOriginal(size_t u) const {
  const internal::UtterancePlace& place = index.places[u];
  if (!shards.at(place.shard)) {
    if (remote) Throw<InputError>("the store '{}' was opened for its index alone", folder.string());
    Throw<InputError>("'{}' is missing on this machine: copy it there, or the whole store", NameOf(place.shard));
  }
  VerifyAt(u, shards[place.shard]->bytes(), shards[place.shard]->path().string());
  verified[u].store(true, std::memory_order_relaxed);
}

void FrameStore::Impl::VerifyShard(size_t shard, std::span<const std::byte> bytes) const {
  for (const uint32_t u : in_shard[shard]) VerifyAt(u, bytes, NameOf(shard));
}

// The utterance's bytes in a shard's.
void FrameStore::Impl::VerifyAt(size_t u, std::span<const std::byte> shard, const std::string& name) const {
  const internal::UtterancePlace& place = index.places[u];
  const auto fail = [&](const std::string& what) {
    Throw<InputError>("'{}', byte {}, utterance '{}': {}; make the store again", name, place.offset,
                      index.utterances[u].utt_id, what);
  };
  const std::span<const std::byte> bytes = shard.subspan(place.offset, header.utterance_bytes(NumFrames(u)));
  if (Checksum(bytes) != place.checksum) fail("the checksum is wrong: the file was changed or damaged");
  const auto* ranges = reinterpret_cast<const float*>(bytes.data());
  for (int c = 0; !live && c < 2 * header.feat_dim; ++c) {
    if (!std::isfinite(ranges[c])) fail("a column's range is not finite");
  }
  for (int64_t t = 0; t < NumFrames(u); ++t) {
    const int32_t pdf = PdfAt(reinterpret_cast<const char*>(bytes.data()), u, t);
    if (pdf < 0 || pdf >= header.num_pdfs) fail(fmt::format("pdf-id {} is out of range", pdf));
  }
}

FrameStore::FrameStore(const fs::path& folder, const FrameStoreAccess& access) : impl_(Impl::Open(folder, access)) {}
FrameStore::FrameStore(FrameStore&&) noexcept = default;
FrameStore::~FrameStore() = default;

void FrameStore::FetchAhead(uint64_t reader, std::span<const size_t> wanted) const {
  if (!impl_->fetcher) return;
  std::vector<size_t> there;
  for (const size_t shard : wanted) {
    if (HasShard(shard) && impl_->header.shard_bytes[shard] > 0) there.push_back(shard);
  }
  impl_->fetcher->Want(reader, there);
}

size_t FrameStore::FinishFetching() const { return impl_->fetcher ? impl_->fetcher->Finish() : 0; }
bool FrameStore::is_remote() const { return impl_->remote != nullptr; }
uint64_t FrameStore::cache_limit_bytes() const { return impl_->fetcher ? impl_->fetcher->limit_bytes() : 0; }

int FrameStore::feat_dim() const { return impl_->header.feat_dim; }
int FrameStore::num_pdfs() const { return impl_->header.num_pdfs; }
int64_t FrameStore::num_frames() const { return impl_->header.num_frames; }
std::span<const FrameStore::Utterance> FrameStore::utterances() const { return impl_->index.utterances; }
std::span<const std::string> FrameStore::speakers() const { return impl_->index.speakers; }
bool FrameStore::labelled() const { return impl_->header.labelled; }
const std::string& FrameStore::description() const { return impl_->header.description; }
const fs::path& FrameStore::folder() const { return impl_->folder; }
uint64_t FrameStore::fingerprint() const { return impl_->fingerprint; }
const LiveFeatures* FrameStore::live() const { return impl_->live.get(); }
size_t FrameStore::num_shards() const { return impl_->shards.size(); }
size_t FrameStore::ShardOf(size_t utterance) const { return impl_->index.places.at(utterance).shard; }
bool FrameStore::HasShard(size_t shard) const { return is_remote() || impl_->shards.at(shard).has_value(); }
fs::path FrameStore::ShardFile(size_t shard) const { return impl_->NameOf(shard); }
uint64_t FrameStore::ShardBytes(size_t shard) const { return impl_->header.shard_bytes.at(shard); }

void FrameStore::ReadFrames(size_t utterance, int first, MatrixView out) const {
  const int num_frames = impl_->index.utterances.at(utterance).num_frames;
  if (out.cols() != feat_dim() || first < 0 || out.rows() > num_frames - first) {
    Throw<ShapeError>("frames {} … {} of {} columns wanted, utterance '{}' has {} of {}", first, first + out.rows() - 1,
                      out.cols(), impl_->index.utterances[utterance].utt_id, num_frames, feat_dim());
  }
  if (impl_->live) {
    const std::string made = impl_->live->Make(utterance);
    return impl_->coding.Decode(made.data(), first, out.rows(), out.data(), out.stride());
  }
  impl_->coding.Decode(impl_->Read(utterance).data(), first, out.rows(), out.data(), out.stride());
}

void FrameStore::ReadSpliced(size_t utterance, int frame, Context context, float* out) const {
  const int64_t num_frames = impl_->index.utterances[utterance].num_frames;
  DCHECK(frame >= 0 && frame < num_frames);
  DCHECK(!impl_->live);
  impl_->coding.Splice(impl_->Read(utterance).data(), num_frames, frame, context, out);
}

int32_t FrameStore::PdfId(size_t utterance, int frame) const {
  DCHECK(frame >= 0 && frame < impl_->index.utterances[utterance].num_frames);
  return impl_->PdfAt(impl_->Read(utterance).data(), utterance, frame);
}

void FrameStore::ReadPdfIds(size_t utterance, std::span<int32_t> out) const {
  const int32_t num_frames = impl_->index.utterances.at(utterance).num_frames;
  if (std::ssize(out) != num_frames)
    Throw<ShapeError>("room for {} pdf-ids, the utterance has {}", out.size(), num_frames);
  const Impl::Reading reading = impl_->Read(utterance);
  for (int32_t t = 0; t < num_frames; ++t) {
    out[static_cast<size_t>(t)] = impl_->PdfAt(reading.data(), utterance, t);
  }
}

void FrameStore::Verify(size_t utterance) const { impl_->Read(utterance); }

void FrameStore::ReleasePages() const {
  for (const std::optional<MappedFile>& shard : impl_->shards) {
    if (shard) antiphon::ReleasePages(shard->bytes());
  }
  if (impl_->fetcher) impl_->fetcher->ReleasePages();
}

int64_t FrameStore::CountFrames(std::span<const size_t> chosen) const {
  int64_t frames = 0;
  for (const size_t u : chosen) frames += utterances()[u].num_frames;
  return frames;
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
    const Impl::Reading reading = impl_->Read(u);
    for (int32_t t = 0; t < utterances()[u].num_frames; ++t) {
      ++counts[static_cast<size_t>(impl_->PdfAt(reading.data(), u, t))];
    }
  }
  return counts;
}

}  // namespace antiphon::data
