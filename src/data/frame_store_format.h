// The bytes of a frame store, shared by its writer and its reader.
//
// shard-NNNNN.frames: for each utterance, from a multiple of 64 bytes on: step and smallest value per column (float32
// each), codes [frames × feat_dim] (uint8 or uint16), pdf-ids [frames] (uint16 if there are at most 65536, else int32).
// Of a live store, whose frames are made when they are read (data/live_features.h): pdf-ids alone.
// index.bin: speakers, then one record per utterance. store.json: sizes, and the checksums of index.bin and of itself.
// All numbers little endian; checksums are XXH3-64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/frame_coding.h"
#include "data/frame_store.h"

namespace antiphon::data::internal {

inline constexpr std::string_view kStoreFormat = "antiphon-frame-store";
inline constexpr int kStoreVersion = 1;
inline constexpr uint64_t kIndexMagic = 0x3158444946544e41;  // "ANTFIDX1"
inline constexpr uint64_t kAlignment = 64;
/// In a live store's folder, what says how its frames are made.
inline constexpr char kLiveFolder[] = "recordings";

struct StoreHeader {
  std::string coding = "uint8";
  int feat_dim = 0;
  int num_pdfs = 0;
  int64_t num_frames = 0;
  int64_t num_utterances = 0;
  std::string description;
  bool labelled = true;                     // the pdf-ids are an alignment, not stand-ins
  std::map<std::string, std::string> live;  // files that say how frames are made, with checksums; empty: they are held
  std::vector<uint64_t> shard_bytes;
  uint64_t index_bytes = 0;
  uint64_t index_checksum = 0;

  FrameCoding frame_coding() const { return {coding, feat_dim}; }
  uint64_t pdf_bytes() const { return num_pdfs <= 65536 ? 2 : 4; }
  uint64_t pdfs_offset(int64_t frames) const { return live.empty() ? frame_coding().bytes(frames) : 0; }
  uint64_t utterance_bytes(int64_t frames) const {
    return pdfs_offset(frames) + pdf_bytes() * static_cast<uint64_t>(frames);
  }
};

/// Where an utterance's bytes lie.
struct UtterancePlace {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t checksum = 0;
};

struct UtteranceRecord {
  FrameStore::Utterance utterance;
  UtterancePlace place;
};

struct StoreIndex {
  std::vector<std::string> speakers;
  std::vector<FrameStore::Utterance> utterances;
  std::vector<UtterancePlace> places;  // of each utterance
};

std::string ShardName(size_t shard);
/// Where a store stands aside while another one takes its place.
std::filesystem::path OldStore(const std::filesystem::path& folder);

/// store.json. Parse throws InputError (without a file name) for anything but a header that ToJson made.
std::string HeaderToJson(const StoreHeader& header);
StoreHeader HeaderFromJson(std::string_view json);

std::string IndexToBytes(const std::vector<std::string>& speakers, const std::vector<UtteranceRecord>& records);
/// InputError naming `name` for an index that does not fit the header: places outside their shard, no frames, unknown
/// speakers, sums that differ.
StoreIndex IndexFromBytes(std::string_view bytes, const std::string& name, const StoreHeader& header);

}  // namespace antiphon::data::internal
