#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "data/frame_store_format.h"

namespace antiphon::data {

namespace fs = std::filesystem;

struct FrameStoreWriter::Impl {
  Impl(fs::path f, int feat_dim, int num_pdfs, const FrameStoreOptions& options)
      : folder(f.has_filename() ? std::move(f) : f.parent_path()), partial(folder.string() + ".partial") {
    if (IsRemote(folder.native())) {
      Throw<UsageError>("a frame store is made in a folder of this machine, not at '{}': make it, and copy it there",
                        folder.string());
    }
    if (feat_dim < 1 || num_pdfs < 1)
      Throw<UsageError>("a frame store needs features and pdf-ids, not {} and {}", feat_dim, num_pdfs);
    std::error_code ignored;
    const fs::path old = internal::OldStore(folder);
    if (!fs::exists(folder, ignored) && fs::exists(old / "store.json", ignored)) fs::rename(old, folder, ignored);
    // Refused, and named as what it is: in the end, no folder could take its place.
    if (!fs::exists(folder, ignored) && fs::is_symlink(fs::symlink_status(folder, ignored))) MakeFolder(folder);
    if (fs::exists(folder, ignored) && !fs::exists(folder / "store.json", ignored) && !fs::is_empty(folder, ignored)) {
      Throw<UsageError>("'{}' is there and is no frame store; choose another folder", folder.string());
    }
    header.coding = options.coding;
    header.feat_dim = feat_dim;
    header.num_pdfs = num_pdfs;
    header.labelled = options.labelled;
    shard_limit = static_cast<uint64_t>(options.shard_mib) << 20;
    fs::remove_all(partial, ignored);
  }
  ~Impl() {
    shard.reset();
    std::error_code ignored;
    fs::remove_all(partial, ignored);
  }

  void BeginShardIfNeeded(uint64_t bytes) {
    if (shard && header.shard_bytes.back() + bytes <= shard_limit) return;
    EndShard();
    shard = std::make_unique<AtomicFile>(partial / internal::ShardName(header.shard_bytes.size()));
    header.shard_bytes.push_back(0);
  }
  void EndShard() {
    if (shard) shard->Commit();
    shard.reset();
  }

  // `encode` writes what stands before the pdf-ids.
  template <class Encode>
  void Append(std::string_view utt_id, std::string_view speaker, std::span<const int32_t> pdf_ids, float weight,
              const Encode& encode) {
    const int64_t frames = std::ssize(pdf_ids);
    if (frames < 1 || frames > std::numeric_limits<int32_t>::max()) {
      Throw<InputError>("{} frames; expected at least one", frames);
    }
    for (const int32_t pdf : pdf_ids) {
      if (pdf < 0 || pdf >= header.num_pdfs) Throw<InputError>("pdf-id {}; expected 0 … {}", pdf, header.num_pdfs - 1);
    }
    if (!std::isfinite(weight) || weight < 0.0f) Throw<InputError>("weight {}; expected a number from 0", weight);
    if (seen.count(std::string(utt_id)) > 0) Throw<InputError>("it is there twice");

    const uint64_t bytes = header.utterance_bytes(frames);
    buffer.assign((bytes + internal::kAlignment - 1) / internal::kAlignment * internal::kAlignment, '\0');
    encode(buffer.data());
    char* pdfs = buffer.data() + header.pdfs_offset(frames);
    for (const int32_t pdf : pdf_ids) {
      std::memcpy(pdfs, &pdf, header.pdf_bytes());
      pdfs += header.pdf_bytes();
    }
    BeginShardIfNeeded(buffer.size());
    internal::UtteranceRecord record;
    record.utterance = {std::string(utt_id), SpeakerIndex(speaker), static_cast<int32_t>(frames), 0, weight};
    record.place = {static_cast<uint32_t>(header.shard_bytes.size() - 1), header.shard_bytes.back(),
                    Checksum(std::string_view(buffer).substr(0, bytes))};
    shard->stream().write(buffer.data(), std::ssize(buffer));
    shard->CheckStream();
    header.shard_bytes.back() += buffer.size();
    header.num_frames += frames;
    seen.insert(record.utterance.utt_id);
    records.push_back(std::move(record));
  }

  int32_t SpeakerIndex(std::string_view name) {
    const auto [it, is_new] = speaker_index.emplace(std::string(name), static_cast<int32_t>(speakers.size()));
    if (is_new) speakers.emplace_back(name);
    return it->second;
  }

  // Puts the whole folder in the place of an older one, in one step where the file system can exchange two names. Where
  // it cannot, the old one stands aside for an instant, where readers and a later writer find it.
  void MoveIntoPlace() const {
    std::error_code error;
    if (!fs::exists(folder, error)) {
      Rename(partial, folder);
    } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) == 0) {
      fs::remove_all(partial, error);
    } else {
      const fs::path old = internal::OldStore(folder);
      fs::remove_all(old, error);
      Rename(folder, old);
      Rename(partial, folder);
      fs::remove_all(old, error);
    }
  }

  static void Rename(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) Throw<IoError>("cannot rename '{}' to '{}': {}", from.string(), to.string(), error.message());
  }

  fs::path folder;
  fs::path partial;
  internal::StoreHeader header;
  uint64_t shard_limit = 0;
  std::unique_ptr<AtomicFile> shard;
  std::vector<std::string> speakers;
  std::unordered_map<std::string, int32_t> speaker_index;
  std::unordered_set<std::string> seen;
  std::vector<internal::UtteranceRecord> records;
  std::string buffer;
};

FrameStoreWriter::FrameStoreWriter(fs::path folder, int feat_dim, int num_pdfs, FrameStoreOptions options)
    : impl_(std::make_unique<Impl>(std::move(folder), feat_dim, num_pdfs, options)) {}
FrameStoreWriter::~FrameStoreWriter() = default;

void FrameStoreWriter::Add(std::string_view utt_id, std::string_view speaker, ConstMatrixView features,
                           std::span<const int32_t> pdf_ids, float weight) {
  Impl& w = *impl_;
  const auto add = [&] {
    CHECK(w.header.live.empty());
    if (features.cols() != w.header.feat_dim) {
      Throw<ShapeError>("features of {} columns, the store has {}", features.cols(), w.header.feat_dim);
    }
    if (std::ssize(pdf_ids) != features.rows())
      Throw<InputError>("{} frames but {} pdf-ids", features.rows(), pdf_ids.size());
    w.Append(utt_id, speaker, pdf_ids, weight, [&](char* out) { w.header.frame_coding().Encode(features, out); });
  };
  WithContext(add, [&] { return fmt::format("frame store '{}', utterance '{}'", w.folder.string(), utt_id); });
}

void FrameStoreWriter::MakeLive(const std::function<std::map<std::string, std::string>(const fs::path&)>& write) {
  CHECK(impl_->records.empty());
  const fs::path place = impl_->partial / internal::kLiveFolder;
  fs::create_directories(place);
  impl_->header.live = write(place);
}

void FrameStoreWriter::AddLive(std::string_view utt_id, std::string_view speaker, std::span<const int32_t> pdf_ids) {
  Impl& w = *impl_;
  CHECK(!w.header.live.empty());
  WithContext([&] { w.Append(utt_id, speaker, pdf_ids, 1.0f, [](char*) {}); },
              [&] { return fmt::format("frame store '{}', utterance '{}'", w.folder.string(), utt_id); });
}

void FrameStoreWriter::Finish(std::string_view description) {
  Impl& w = *impl_;
  w.EndShard();
  w.header.description = description;
  w.header.num_utterances = std::ssize(w.records);
  const std::string index = internal::IndexToBytes(w.speakers, w.records);
  w.header.index_bytes = index.size();
  w.header.index_checksum = Checksum(index);
  WriteFileAtomically(w.partial / "index.bin", index);
  WriteFileAtomically(w.partial / "store.json", internal::HeaderToJson(w.header));
  w.MoveIntoPlace();
}

}  // namespace antiphon::data
