// A small frame store with known contents.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/frame_store.h"
#include "temporary_folder.h"

namespace antiphon::data {

struct StoreContent {
  std::vector<Matrix> features;
  std::vector<std::vector<int32_t>> pdfs;
};

/// Utterance u has 1 … max_frames frames; column 0 of frame t holds t, the others noise about u.
inline StoreContent MakeStore(const std::filesystem::path& folder, int num_utterances, int feat_dim = 5,
                              int num_pdfs = 30, FrameStoreOptions options = {}, int max_frames = 90) {
  StoreContent content;
  FrameStoreWriter writer(folder, feat_dim, num_pdfs, options);
  Rng rng(11);
  for (int u = 0; u < num_utterances; ++u) {
    const auto frames = static_cast<int64_t>(1 + rng.Below(static_cast<uint64_t>(max_frames)));
    Matrix m(frames, feat_dim);
    std::vector<int32_t> pdfs;
    for (int64_t t = 0; t < frames; ++t) {
      m(t, 0) = static_cast<float>(t);
      for (int c = 1; c < feat_dim; ++c) m(t, c) = static_cast<float>(u + rng.Normal());
      pdfs.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(num_pdfs))));
    }
    writer.Add("utt" + std::to_string(1000 + u), "spk" + std::to_string(u % 7), m, pdfs);
    content.features.push_back(std::move(m));
    content.pdfs.push_back(std::move(pdfs));
  }
  writer.Finish("made for a test");
  return content;
}

}  // namespace antiphon::data
