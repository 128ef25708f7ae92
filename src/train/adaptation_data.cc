#include "train/adaptation_data.h"

#include <numeric>

namespace antiphon::train {
namespace {

std::vector<size_t> OrAll(std::vector<size_t> utterances, const data::FrameStore& store) {
  if (!utterances.empty()) return utterances;
  utterances.resize(store.utterances().size());
  std::iota(utterances.begin(), utterances.end(), size_t{0});
  return utterances;
}

}  // namespace

StoreSpeech::StoreSpeech(std::shared_ptr<const data::FrameStore> store, std::vector<size_t> utterances)
    : store_(std::move(store)), utterances_(OrAll(std::move(utterances), *store_)) {}

std::optional<adapt::AlignedUtterance> StoreSpeech::Next() {
  if (next_ == utterances_.size()) return std::nullopt;
  const size_t u = utterances_[next_++];
  const int frames = store_->utterances()[u].num_frames;
  features_.Resize(frames, store_->feat_dim());
  pdf_ids_.resize(static_cast<size_t>(frames));
  store_->ReadFrames(u, 0, features_);
  store_->ReadPdfIds(u, pdf_ids_);
  return adapt::AlignedUtterance{features_, pdf_ids_};
}

std::shared_ptr<const data::FrameStore> JoinStores(const std::vector<StorePart>& parts,
                                                   const std::filesystem::path& folder) {
  const data::FrameStore& first = *parts.front().store;
  data::FrameStoreWriter writer(folder, first.feat_dim(), first.num_pdfs());
  for (const StorePart& part : parts) {
    Matrix features;
    std::vector<int32_t> pdf_ids;
    for (const size_t u : OrAll(part.utterances, *part.store)) {
      const data::FrameStore::Utterance& utterance = part.store->utterances()[u];
      features.Resize(utterance.num_frames, first.feat_dim());
      pdf_ids.resize(static_cast<size_t>(utterance.num_frames));
      part.store->ReadFrames(u, 0, features);
      part.store->ReadPdfIds(u, pdf_ids);
      const std::string& speaker = part.store->speakers()[static_cast<size_t>(utterance.speaker)];
      writer.Add(part.prefix + utterance.utt_id, part.prefix + speaker, features, pdf_ids, utterance.weight);
    }
  }
  writer.Finish(first.description());
  return std::make_shared<const data::FrameStore>(folder);
}

}  // namespace antiphon::train
