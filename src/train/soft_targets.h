// A teacher's posteriors of every frame of a store, computed once and kept in a file: the largest few of each frame.
// Utterances go through the scorers that recognise, so that a teacher may be recurrent, or have several heads.
//
//   SoftTargets::Write("exp/targets.bin", *store, teachers, {.top = 20});
//   const SoftTargets targets("exp/targets.bin", *store);
//   targets.Read(frame_id, /*temperature=*/2, row);
//
// File: a header of 64 bytes (magic, frames, pdf-ids, entries per frame, checksum of the store's bytes), then for each
// frame id `top` entries of 4 bytes: pdf-id and −log p in steps of 1/1024 nat, largest first.
// What is left of a frame's mass is shared in proportion: rows sum to 1. Units: nats.
// Threads: const methods may run together. Errors: InputError for a file that is damaged or of another store.
// Source: algorithms reference 2.5 (stored top-20 posteriors).
#pragma once

#include <filesystem>
#include <span>

#include "base/file.h"
#include "train/targets.h"

namespace antiphon::train {

struct SoftTargetOptions {
  int top = 20;
  std::string precision = "fp32";
  template <class V>
  void Visit(V& v) {
    v("top", top, Range{1, 4096}, "posteriors kept per frame");
    v("precision", precision, OneOf{{"fp32", "bf16", "auto"}}, "of the teachers' arithmetic");
  }
};

class SoftTargets {
 public:
  /// Maps the file.
  SoftTargets(const std::filesystem::path& path, const data::FrameStore& store);

  int top() const { return top_; }
  /// Overwrites `out` [pdf-ids] with the distribution of a frame (id as in the store) at a temperature.
  void Read(int64_t frame_id, double temperature, std::span<float> out) const;

  /// The mean of the teachers' posteriors at temperature 1. The file is whole or not there. Returns the mean share of a
  /// frame's mass that its entries hold.
  static double Write(const std::filesystem::path& path, std::shared_ptr<const data::FrameStore> store,
                      const Teachers& teachers, const SoftTargetOptions& options);

 private:
  MappedFile file_;
  int64_t num_frames_ = 0;
  int top_ = 0;
};

}  // namespace antiphon::train
