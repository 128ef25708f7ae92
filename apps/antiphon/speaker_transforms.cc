#include "speaker_transforms.h"

#include <vector>

#include "base/thread_pool.h"
#include "data/archive.h"
#include "hmm/gmm_fmllr.h"

namespace antiphon::app {

SpeakerTransforms EstimateSpeakerTransforms(const hmm::GmmModel& model, const SpokenUtterances& utterances,
                                            double min_frames, int num_threads) {
  std::map<std::string, std::vector<size_t>> by_speaker;
  for (size_t i = 0; i < utterances.count; ++i) by_speaker[utterances.speaker(i)].push_back(i);
  SpeakerTransforms transforms;
  std::vector<std::map<std::string, std::vector<size_t>>::const_iterator> speakers;
  for (auto it = by_speaker.begin(); it != by_speaker.end(); ++it) {
    speakers.push_back(it);
    transforms.emplace(it->first, Matrix());
  }
  ParallelFor(speakers.size(), num_threads, [&](size_t s) {
    const auto& [speaker, indices] = *speakers[s];
    std::vector<Matrix> frames;
    std::vector<hmm::SpeakerUtterance> speech;
    frames.reserve(indices.size());
    for (const size_t i : indices) {
      if (utterances.alignment(i).empty()) continue;
      frames.push_back(utterances.features(i));
      speech.push_back({frames.back(), utterances.alignment(i)});
    }
    transforms.at(speaker) = EstimateSpeakerTransform(model, speech, min_frames);
  });
  return transforms;
}

void WriteSpeakerTransforms(const SpeakerTransforms& transforms, const std::filesystem::path& folder) {
  data::TableWriter<Matrix> table(folder / "fmllr.ark");
  for (const auto& [speaker, transform] : transforms) table.Write(speaker, transform);
  table.Close();
}

}  // namespace antiphon::app
