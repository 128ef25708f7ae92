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
#include "data/frame_store_format.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

template <class Code>
void Quantise(ConstMatrixView features, char* out) {
  const auto dim = static_cast<size_t>(features.cols());
  constexpr float kLast = static_cast<float>(std::numeric_limits<Code>::max());
  std::vector<float> step(dim);
  std::vector<float> low(dim, std::numeric_limits<float>::infinity());
  std::vector<float> high(dim, -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < features.rows(); ++r) {
    const std::span<const float> row = features.Row(r);
    for (size_t c = 0; c < dim; ++c) {
      if (!std::isfinite(row[c]))
        Throw<InputError>("frame {}, column {} holds {}; expected finite numbers", r, c, row[c]);
      low[c] = std::min(low[c], row[c]);
      high[c] = std::max(high[c], row[c]);
    }
  }
  for (size_t c = 0; c < dim; ++c) {
    step[c] = (high[c] - low[c]) / kLast;
    if (!std::isfinite(step[c]))
      Throw<InputError>("column {}: the values {} and {} are too far apart", c, low[c], high[c]);
  }
  std::memcpy(out, step.data(), dim * sizeof(float));
  std::memcpy(out + dim * sizeof(float), low.data(), dim * sizeof(float));
  char* codes = out + 2 * dim * sizeof(float);
  for (int64_t r = 0; r < features.rows(); ++r) {
    const std::span<const float> row = features.Row(r);
    for (size_t c = 0; c < dim; ++c, codes += sizeof(Code)) {
      const float position = step[c] > 0.0f ? (row[c] - low[c]) / step[c] : 0.0f;
      const auto code = static_cast<Code>(std::clamp(position + 0.5f, 0.0f, kLast));
      std::memcpy(codes, &code, sizeof code);
    }
  }
}

}  // namespace

struct FrameStoreWriter::Impl {
  Impl(fs::path f, int feat_dim, int num_pdfs, const FrameStoreOptions& options)
      : folder(f.has_filename() ? std::move(f) : f.parent_path()), partial(folder.string() + ".partial") {
    if (feat_dim < 1 || num_pdfs < 1)
      Throw<UsageError>("a frame store needs features and pdf-ids, not {} and {}", feat_dim, num_pdfs);
    std::error_code ignored;
    const fs::path old = internal::OldStore(folder);
    if (!fs::exists(folder, ignored) && fs::exists(old / "store.json", ignored)) fs::rename(old, folder, ignored);
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
    if (features.cols() != w.header.feat_dim) {
      Throw<ShapeError>("features of {} columns, the store has {}", features.cols(), w.header.feat_dim);
    }
    if (features.rows() < 1 || features.rows() > std::numeric_limits<int32_t>::max()) {
      Throw<InputError>("{} frames; expected at least one", features.rows());
    }
    if (std::ssize(pdf_ids) != features.rows())
      Throw<InputError>("{} frames but {} pdf-ids", features.rows(), pdf_ids.size());
    for (const int32_t pdf : pdf_ids) {
      if (pdf < 0 || pdf >= w.header.num_pdfs)
        Throw<InputError>("pdf-id {}; expected 0 … {}", pdf, w.header.num_pdfs - 1);
    }
    if (!std::isfinite(weight) || weight < 0.0f) Throw<InputError>("weight {}; expected a number from 0", weight);
    if (w.seen.count(std::string(utt_id)) > 0) Throw<InputError>("it is there twice");

    const uint64_t bytes = w.header.utterance_bytes(features.rows());
    w.buffer.assign((bytes + internal::kAlignment - 1) / internal::kAlignment * internal::kAlignment, '\0');
    w.header.coding == "uint8" ? Quantise<uint8_t>(features, w.buffer.data())
                               : Quantise<uint16_t>(features, w.buffer.data());
    char* pdfs = w.buffer.data() + w.header.pdfs_offset(features.rows());
    for (const int32_t pdf : pdf_ids) {
      std::memcpy(pdfs, &pdf, w.header.pdf_bytes());
      pdfs += w.header.pdf_bytes();
    }
    w.BeginShardIfNeeded(w.buffer.size());
    internal::UtteranceRecord record;
    record.utterance = {std::string(utt_id), w.SpeakerIndex(speaker), static_cast<int32_t>(features.rows()), 0, weight};
    record.shard = static_cast<uint32_t>(w.header.shard_bytes.size() - 1);
    record.offset = w.header.shard_bytes.back();
    record.checksum = Checksum(std::string_view(w.buffer).substr(0, bytes));
    w.shard->stream().write(w.buffer.data(), std::ssize(w.buffer));
    w.shard->CheckStream();
    w.header.shard_bytes.back() += w.buffer.size();
    w.header.num_frames += features.rows();
    w.seen.insert(record.utterance.utt_id);
    w.records.push_back(std::move(record));
  };
  WithContext(add, [&] { return fmt::format("frame store '{}', utterance '{}'", w.folder.string(), utt_id); });
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
