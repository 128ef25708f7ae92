#include "train/soft_targets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/cancel.h"
#include "base/error.h"

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
constexpr int kBatch = 1024;

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

data::Context WidestContext(const Teachers& teachers) {
  data::Context context;
  for (const auto& t : teachers) {
    context.left = std::max(context.left, t->left_context);
    context.right = std::max(context.right, t->right_context);
  }
  return context;
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
  const data::Context context = WidestContext(teachers);
  data::MinibatchOptions batches;
  batches.minibatch = kBatch;
  batches.left_context = context.left;
  batches.right_context = context.right;
  batches.shuffle = false;
  TargetMaker maker(store, {}, teachers, {.models = {}, .weight = 1, .temperature = 1, .targets = {}}, context,
                    ParsePrecision(options.precision));
  data::MinibatchStream stream(std::make_shared<const data::MinibatchPool>(store, batches, 0, 1, std::vector<size_t>()),
                               0, 0);
  AtomicFile file(path);
  file.stream().write(reinterpret_cast<const char*>(&header), sizeof header);
  std::vector<Entry> entries(static_cast<size_t>(header.top));
  std::vector<int> order;
  double kept = 0;
  while (data::Minibatch* minibatch = stream.Next()) {
    ThrowIfCancelled("storing targets");
    const ConstMatrixView soft = maker.Make(*minibatch).soft;
    for (int64_t n = 0; n < soft.rows(); ++n) {
      kept += Largest(soft.Row(n), order, entries);
      const int64_t frame = minibatch->frame_ids[static_cast<size_t>(n)];
      file.stream().seekp(
          static_cast<std::streamoff>(sizeof header + entries.size() * sizeof(Entry) * static_cast<size_t>(frame)));
      file.stream().write(reinterpret_cast<const char*>(entries.data()),
                          static_cast<std::streamsize>(entries.size() * sizeof(Entry)));
    }
    file.CheckStream();
  }
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
