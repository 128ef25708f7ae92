// Speech of frame stores as adaptation takes it: utterance by utterance, and stores joined on disk.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "adapt/method.h"
#include "data/frame_store.h"

namespace antiphon::train {

/// The utterances of a store, one by one.
class StoreSpeech : public adapt::AlignedSpeech {
 public:
  /// `utterances`: empty: all.
  StoreSpeech(std::shared_ptr<const data::FrameStore> store, std::vector<size_t> utterances);
  void Rewind() override { next_ = 0; }
  std::optional<adapt::AlignedUtterance> Next() override;

 private:
  std::shared_ptr<const data::FrameStore> store_;
  std::vector<size_t> utterances_;
  size_t next_ = 0;
  Matrix features_;
  std::vector<int32_t> pdf_ids_;
};

/// A part of a store; utterances and speakers are called `prefix` + what they were.
struct StorePart {
  std::shared_ptr<const data::FrameStore> store;
  std::vector<size_t> utterances;  // empty: all
  std::string prefix;
};
/// One after another, in a new store.
std::shared_ptr<const data::FrameStore> JoinStores(const std::vector<StorePart>& parts,
                                                   const std::filesystem::path& folder);

}  // namespace antiphon::train
