#include "train/soft_targets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "infer/nnet_scorer.h"

namespace antiphon::train {
namespace {

struct Header {
  char magic[8] = {'A', 'N', 'T', 'S', 'O', 'F', 'T', '1'};
  int64_t num_frames = 0;
  int32_t num_pdfs = 0;
  int32_t top = 0;
  uint64_t store = 0;
  char reserved[32] = {};
};
static_assert(sizeof(Header) == 64);

struct Entry {
  uint16_t pdf_id = 0;
  uint16_t cost = 0;
};
static_assert(sizeof(Entry) == 4);

constexpr double kStepsPerNat = 1024;
constexpr int kBlockFrames = 1024;

// The largest posteriors of a row, as entries; returns their sum.
double Largest(std::span<const float> row, std::vector<int>& order, std::span<Entry> out) {
  order.resize(row.size());
  std::iota(order.begin(), order.end(), 0);
  const auto p = [&](int id) { return row[static_cast<size_t>(id)]; };
  std::partial_sort(order.begin(), order.begin() + std::ssize(out), order.end(),
                    [&](int a, int b) { return p(a) > p(b) || (p(a) == p(b) && a < b); });
  double sum = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto value = static_cast<double>(p(order[i]));
    sum += value;
    const double cost = std::min(65535.0, std::round(-kStepsPerNat * std::log(std::max(value, 1e-30))));
    out[i] = {static_cast<uint16_t>(order[i]), static_cast<uint16_t>(std::max(0.0, cost))};
  }
  return sum;
}

using Scorers = std::vector<std::shared_ptr<const infer::NnetModel>>;

Scorers MakeScorers(const Teachers& teachers, const data::FrameStore& store, const SoftTargetOptions& options) {
  infer::NnetScorerOptions scoring;
  scoring.prior_scale = 0;
  scoring.block_frames = kBlockFrames;
  scoring.precision = options.precision;
  Scorers scorers;
  for (const auto& teacher : teachers) {
    RequireSameTask(*teacher, store);
    scorers.push_back(std::make_shared<const infer::NnetModel>(teacher->Clone(), scoring));
  }
  return scorers;
}

struct UtteranceEntries {
  std::vector<Entry> entries;  // frame after frame
  double kept = 0;
};

// The largest `top` posteriors of the teachers' mean, frame by frame.
UtteranceEntries EntriesOf(const Scorers& scorers, const Matrix& features, size_t top) {
  const auto frames = static_cast<size_t>(features.rows());
  std::vector<std::unique_ptr<infer::NnetScorer>> running;
  for (const auto& model : scorers) running.push_back(std::make_unique<infer::NnetScorer>(model, Matrix(features)));
  const auto share = static_cast<float>(1.0 / static_cast<double>(scorers.size()));
  UtteranceEntries result{std::vector<Entry>(top * frames), 0};
  std::vector<float> mean(static_cast<size_t>(scorers.front()->num_pdfs()));
  std::vector<int> order;
  for (size_t t = 0; t < frames; ++t) {
    std::ranges::fill(mean, 0.0F);
    for (const auto& scorer : running) {
      const std::span<const float> log_posteriors = scorer->DenseFrame(static_cast<int>(t));
      for (size_t k = 0; k < mean.size(); ++k) mean[k] += share * std::exp(log_posteriors[k]);
    }
    result.kept += Largest(mean, order, std::span(result.entries).subspan(t * top, top));
  }
  return result;
}

}  // namespace

double SoftTargets::Write(const std::filesystem::path& path, std::shared_ptr<const data::FrameStore> store,
                          const Teachers& teachers, const SoftTargetOptions& options) {
  if (teachers.empty()) throw UsageError("stored targets need a teacher");
  if (store->num_pdfs() > 65536) {
    Throw<UsageError>("stored targets are for up to 65536 pdf-ids, the store has {}", store->num_pdfs());
  }
  Header header;
  header.num_frames = store->num_frames();
  header.num_pdfs = store->num_pdfs();
  header.top = std::min(options.top, store->num_pdfs());
  header.store = store->fingerprint();
  const Scorers scorers = MakeScorers(teachers, *store, options);
  const auto utterances = store->utterances();
  AtomicFile file(path);
  file.stream().write(reinterpret_cast<const char*>(&header), sizeof header);
  double kept = 0;
  ParallelInOrder<UtteranceEntries>(
      utterances.size(), ComputeThreads(),
      [&](size_t u) {
        ThrowIfCancelled("storing targets");
        Matrix features(utterances[u].num_frames, store->feat_dim());
        store->ReadFrames(u, 0, features);
        return EntriesOf(scorers, features, static_cast<size_t>(header.top));
      },
      [&](size_t u, UtteranceEntries&& result) {
        const auto frame_bytes = static_cast<int64_t>(sizeof(Entry)) * header.top;
        file.stream().seekp(static_cast<std::streamoff>(sizeof header) + frame_bytes * utterances[u].first_frame);
        file.stream().write(reinterpret_cast<const char*>(result.entries.data()),
                            static_cast<std::streamsize>(result.entries.size() * sizeof(Entry)));
        file.CheckStream();
        kept += result.kept;
      });
  file.Commit();
  return kept / static_cast<double>(std::max<int64_t>(1, header.num_frames));
}

SoftTargets::SoftTargets(const std::filesystem::path& path, const data::FrameStore& store) : file_(path) {
  Header header;
  const Header expected;
  if (file_.bytes().size() < sizeof header) {
    Throw<InputError>("'{}' is no file of stored targets: {} bytes", path.string(), file_.bytes().size());
  }
  std::memcpy(&header, file_.bytes().data(), sizeof header);
  if (std::memcmp(header.magic, expected.magic, sizeof header.magic) != 0) {
    Throw<InputError>("'{}' is no file of stored targets (antiphon targets)", path.string());
  }
  if (header.store != store.fingerprint() || header.num_frames != store.num_frames() ||
      header.num_pdfs != store.num_pdfs()) {
    Throw<InputError>(
        "the targets '{}' are of another store ({} frames, {} pdf-ids) than '{}' ({}, {}): make them anew",
        path.string(), header.num_frames, header.num_pdfs, store.folder().string(), store.num_frames(),
        store.num_pdfs());
  }
  const size_t bytes = file_.bytes().size() - sizeof header;
  if (header.top < 1 || header.top > header.num_pdfs ||
      bytes / static_cast<size_t>(header.top) / sizeof(Entry) != static_cast<size_t>(header.num_frames)) {
    Throw<InputError>("'{}' is damaged: {} bytes for {} frames with {} entries each", path.string(), bytes,
                      header.num_frames, header.top);
  }
  num_frames_ = header.num_frames;
  top_ = header.top;
}

void SoftTargets::Read(int64_t frame_id, double temperature, std::span<float> out) const {
  CHECK(frame_id >= 0 && frame_id < num_frames_) << "frame " << frame_id;
  std::fill(out.begin(), out.end(), 0.0F);
  const auto* entries =
      reinterpret_cast<const Entry*>(file_.bytes().data() + sizeof(Header)) + frame_id * int64_t{top_};
  const auto scale = static_cast<float>(1 / (kStepsPerNat * temperature));
  float sum = 0;
  for (int i = 0; i < top_; ++i) {
    if (entries[i].pdf_id >= out.size()) {
      Throw<InputError>("'{}': frame {} has pdf-id {} of {}", file_.path().string(), frame_id, entries[i].pdf_id,
                        out.size());
    }
    // Relative to the first, the largest, so that nothing vanishes at low temperatures.
    const float p = std::exp(-scale * static_cast<float>(entries[i].cost - entries[0].cost));
    out[entries[i].pdf_id] = p;
    sum += p;
  }
  for (int i = 0; i < top_; ++i) out[entries[i].pdf_id] /= sum;
}

}  // namespace antiphon::train
