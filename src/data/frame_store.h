// The training data: memory-mapped shards of compressed features with one pdf-id per frame.
//
// A store is a folder: shard-00000.frames, … and store.json, which is written last and names every shard with its size
// and checksum. Features are held per utterance, each column divided evenly into 256 (uint8) or 65536 (uint16) steps
// between its smallest and largest value; CMVN is applied before writing. Context is spliced at read-out, so a data set
// is never written out spliced, and it need not fit in memory: pages are mapped, and ReleasePages lets go of those not
// in use. A live store holds pdf-ids alone, and makes features of its recordings whenever they are read.
// A store may also lie on a server (data/remote_place.h): then shards are fetched into a folder of this machine
// when somebody reads them, or before, if it is said what will be read.
//
// Shapes: one frame per row; frame t spliced with left L and right R is [x(t−L) … x(t+R)], with the first or last frame
// of the utterance repeated beyond its ends. Frame ids count from 0 through all utterances in the order of the store.
// Threads: const methods may run together.
// Errors: InputError naming file, utterance and byte for a store that is cut short, tampered with, of another version
// or that fails a checksum, and naming the address for what a server does not give; ShapeError for views of the wrong
// shape; Cancelled for a reader that waits for a server when somebody asks to stop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "data/feature_source.h"
#include "data/remote_folder.h"
#include "math/matrix.h"

namespace antiphon::data {

struct FrameStoreOptions {
  std::string coding = "uint8";
  int shard_mib = 256;
  bool labelled = true;  // false: the pdf-ids that come are stand-ins, and nobody may learn from them
  template <class V>
  void Visit(V& v) {
    v("coding", coding, OneOf{{"uint8", "uint16"}}, "steps per feature column and utterance: 256 or 65536");
    v("shard-mib", shard_mib, Range{1, 1 << 14}, "size at which a new shard file is begun, in MiB");
  }
};

/// Where a machine keeps copies of the shards that it reads.
struct ShardCacheOptions {
  std::string cache_dir;
  double cache_limit_gb = 50;
  FetchOptions fetch;
  template <class V>
  void Visit(V& v) {
    v("cache-dir", cache_dir,
      "folder on this machine's own disk for copies of the store's shards, made in the background; a store on a server "
      "needs one; empty: none");
    v("cache-limit-gb", cache_limit_gb, Range{0, 1e9}, "size of that folder, all stores together, in 10^9 bytes");
    fetch.Visit(v);
  }
  uint64_t limit_bytes() const { return static_cast<uint64_t>(1e9 * cache_limit_gb); }
};

/// How a store is opened.
struct FrameStoreAccess {
  bool all_shards = true;   // false: some may be missing (they are on other machines); reading in them is an InputError
  bool index_only = false;  // nothing will be read but what is known of the utterances
  ShardCacheOptions cache;
};

/// Context frames on each side.
struct Context {
  int left = 0;
  int right = 0;
  int width() const { return left + 1 + right; }
};

/// Writes a store. Nothing is at `folder` that Open accepts until Finish returned. One thread.
class FrameStoreWriter {
 public:
  /// Throws UsageError if `folder` holds something that is not a store; an old store is replaced at Finish.
  FrameStoreWriter(std::filesystem::path folder, int feat_dim, int num_pdfs, FrameStoreOptions options = {});
  FrameStoreWriter(const FrameStoreWriter&) = delete;
  ~FrameStoreWriter();

  /// features [N, feat_dim] with N ≥ 1 and N pdf-ids. `weight` multiplies the loss of all frames of the utterance.
  /// InputError for values that are not finite, pdf-ids out of range, lengths that differ or an id seen before.
  void Add(std::string_view utt_id, std::string_view speaker, ConstMatrixView features,
           std::span<const int32_t> pdf_ids, float weight = 1.0f);
  /// Of a live store, before anything is added: `write` puts the files that say how frames are made into a folder, and
  /// returns their names with checksums.
  void MakeLive(const std::function<std::map<std::string, std::string>(const std::filesystem::path&)>& write);
  /// To a live store: an utterance of as many frames as pdf-ids.
  void AddLive(std::string_view utt_id, std::string_view speaker, std::span<const int32_t> pdf_ids);
  /// `description` is kept as it is: how the features were made, as TOML or JSON text.
  void Finish(std::string_view description = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class LiveFeatures;

class FrameStore {
 public:
  struct Utterance {
    std::string utt_id;
    int32_t speaker = 0;  // index into speakers()
    int32_t num_frames = 0;
    int64_t first_frame = 0;  // frame id of its frame 0
    float weight = 1.0f;
  };

  /// Maps the store in a folder, or opens the one at an address; checks header, index and sizes at once, the data of an
  /// utterance when they are first read. With a cache, shards that FetchAhead names are copied into it by a thread of
  /// its own. UsageError for an address without a cache, unless only the index is needed.
  explicit FrameStore(const std::filesystem::path& folder, const FrameStoreAccess& access = {});
  FrameStore(FrameStore&&) noexcept;
  ~FrameStore();

  int feat_dim() const;
  int num_pdfs() const;
  int64_t num_frames() const;
  /// Of these alone; of none, 0.
  int64_t CountFrames(std::span<const size_t> utterances) const;
  std::span<const Utterance> utterances() const;
  std::span<const std::string> speakers() const;
  /// False for speech without alignment, whose pdf-ids mean nothing.
  bool labelled() const;
  const std::string& description() const;
  /// As it was given: a folder or an address.
  const std::filesystem::path& folder() const;
  /// How features are made; null: they are held.
  const LiveFeatures* live() const;
  size_t num_shards() const;
  size_t ShardOf(size_t utterance) const;
  /// False if it is not on this machine.
  bool HasShard(size_t shard) const;
  std::filesystem::path ShardFile(size_t shard) const;

  uint64_t ShardBytes(size_t shard) const;

  /// Whether shards come into the cache alone, as there are no originals on this machine.
  bool is_remote() const;
  /// 0: there is no cache.
  uint64_t cache_limit_bytes() const;
  /// `reader` (a number of its own) will read these shards, in this order, and no longer those that it named before.
  /// Reading goes on from the originals, if there are any, until a copy is there. Nothing without a cache.
  void FetchAhead(uint64_t reader, std::span<const size_t> shards) const;
  /// Waits until everything asked for has been fetched, could not be, or has no room; how many shards are read from
  /// copies.
  size_t FinishFetching() const;
  /// Changes whenever any byte of the store does; checkpoints and "up to date" tests compare it.
  uint64_t fingerprint() const;

  /// Reads frames [first, first + out.rows()) of an utterance, unspliced. out: [N, feat_dim]. A live store makes the
  /// features of the whole utterance for it, from the unchanged recording.
  void ReadFrames(size_t utterance, int first, MatrixView out) const;
  /// Reads one frame with its context. out: feat_dim × context.width() values. Not of a live store.
  void ReadSpliced(size_t utterance, int frame, Context context, float* out) const;
  int32_t PdfId(size_t utterance, int frame) const;
  /// One per frame of the utterance.
  void ReadPdfIds(size_t utterance, std::span<int32_t> out) const;

  /// Compares the utterance's bytes with their checksum, once. Reading does so by itself; a prefetcher can do it
  /// earlier.
  void Verify(size_t utterance) const;
  /// Lets the system take back the pages read so far; reading goes on from the file.
  void ReleasePages() const;

  /// Frames of each pdf-id, over `utterances` (all if empty): what log-priors are made from.
  std::vector<int64_t> CountPdfs(std::span<const size_t> utterances = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Size of the shards of so much speech, in utterances of 12 s.
double EstimateStoreBytes(double frames, int feat_dim, const FrameStoreOptions& options = {});

/// Mean and inverse standard deviation per feature column, for a network's input.
struct FeatureMoments {
  std::vector<float> mean;
  std::vector<float> inv_stddev;
};
/// Over all frames, or over an evenly spread part of the utterances with at least `max_frames` frames. The same bits
/// for any number of threads.
FeatureMoments EstimateMoments(const FrameStore& store, std::span<const size_t> utterances = {},
                               int64_t max_frames = 2'000'000, int num_threads = 0);

/// Of a store whose features are made when they are read.
struct LiveStoreOptions {
  std::string data;
  std::string front_end;
  bool normalise = true;
  int channel = -1;
  std::string audio_root;
  template <class V>
  void Visit(V& v) {
    v("live", data,
      "data directory, in place of a table of features: the store holds none, and training makes them of the "
      "recordings whenever it reads them, varied anew each time if data.augment says so; speakers are the directory's, "
      "and without --cmvn their statistics are found");
    v("front-end", front_end, "with --live: front_end.toml that says how features are computed");
    v("normalise", normalise,
      "with --live and without --cmvn: find each speaker's mean, and take it out; false: frames stay as the front end "
      "makes them");
    v("channel", channel, Range{-1, 1024}, "with --live: of recordings with several, from 0; -1: their mean");
    v("audio-root", audio_root, "with --live: folder that relative paths in wav.scp start from; empty: looked up");
  }
};

struct BuildFrameStoreOptions {
  FeatureSourceOptions input;
  LiveStoreOptions live;
  std::string pdf_alignment;
  int num_pdfs = 0;  // 0: the largest id + 1
  int length_tolerance = 2;
  FrameStoreOptions store;
  template <class V>
  void Visit(V& v) {
    input.Visit(v);
    v("unknown-speakers", input.unknown_speakers, Range{0, 1},
      "share of the utterances that are taken for an unknown speaker's: normalised by themselves, without a transform, "
      "so that the network also serves speakers whose transform is not known yet");
    live.Visit(v);
    v("alignment", pdf_alignment,
      "table of pdf-ids, one per frame (pdf.scp); empty: speech without transcripts, for a teacher to label");
    v("num-pdfs", num_pdfs, Range{0, 1 << 28},
      "pdf-ids of the model; 0: the largest one in the alignment, plus 1. Needed without an alignment");
    v("length-tolerance", length_tolerance, Range{0, 1000},
      "frames by which features and alignment may differ in length");
    store.Visit(v);
  }
};
struct FrameStoreSummary {
  int64_t utterances = 0;
  int64_t frames = 0;
  std::vector<std::string> without_alignment;  // utterances left out, by id
  std::vector<std::string> without_recording;  // of a live store: alignments that none is there for
};
/// Joins a feature table, a table of pdf-ids (or none) and speakers to a store. Utterances that the table lacks are
/// left out and reported; one whose lengths differ by more than the tolerance is an error naming both lengths (else the
/// shorter one counts). The store says of what kind its features are (data/feature_kind.h). A live store is made of a
/// data directory and pdf-ids; those of "sp0.9-UTT" are of UTT at that speed. Each recording is looked at.
FrameStoreSummary BuildFrameStore(const BuildFrameStoreOptions& options, const std::filesystem::path& folder,
                                  int num_threads = 0);

}  // namespace antiphon::data
