// Speech of two domains, for adversarial training.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "base/random.h"
#include "data/frame_store.h"

namespace antiphon::train {

inline constexpr int kDim = 6, kPdfs = 4;

// Classes in the first dimensions; the domain in the last two, and in a shift of a third of the first.
inline std::shared_ptr<const data::FrameStore> DomainStore(const std::filesystem::path& folder, bool shifted,
                                                           uint64_t seed, bool poisoned = false) {
  data::FrameStoreWriter writer(folder, kDim, kPdfs, {});
  for (int u = 0; u < 30; ++u) {
    Rng rng(seed, static_cast<uint64_t>(u));
    Matrix x(80, kDim);
    std::vector<int32_t> ids(80);
    for (int t = 0; t < 80; ++t) {
      const auto s = static_cast<int32_t>(rng.Below(kPdfs));
      for (int c = 0; c < kDim; ++c) x(t, c) = static_cast<float>(0.6 * rng.Normal());
      x(t, 0) += s < 2 ? 1.2f : -1.2f;
      x(t, 1) += s % 2 == 0 ? 1.2f : -1.2f;
      if (shifted) {
        x(t, 0) += 0.8f;
        x(t, 4) += 2.0f;
        x(t, 5) -= 2.0f;
      }
      // A detour that helps on old speech only: what training on it alone learns to rely on.
      x(t, 2) += (shifted ? -1.0f : 1.0f) * (s < 2 ? 0.9f : -0.9f);
      ids[static_cast<size_t>(t)] = poisoned ? (s + 1) % kPdfs : s;
    }
    writer.Add("u" + std::to_string(u), "s" + std::to_string(u % 5), x, ids);
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

}  // namespace antiphon::train
