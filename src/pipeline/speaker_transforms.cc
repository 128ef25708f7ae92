#include "pipeline/speaker_transforms.h"

#include <vector>

#include "data/archive.h"
#include "data/file_checksums.h"

namespace antiphon::pipeline {

SpeakerTransforms EstimateSpeakerTransforms(const hmm::GmmModel& model, const SpokenUtterances& utterances,
                                            double min_frames, const hmm::FmllrPrior& prior, int num_threads,
                                            Team& team) {
  std::map<std::string, std::vector<size_t>> by_speaker;
  for (size_t i = 0; i < utterances.count; ++i) by_speaker[utterances.speaker(i)].push_back(i);
  std::vector<std::map<std::string, std::vector<size_t>>::const_iterator> speakers;
  std::vector<int64_t> frames_of;
  for (auto it = by_speaker.begin(); it != by_speaker.end(); ++it) {
    speakers.push_back(it);
    frames_of.push_back(0);
    for (const size_t i : it->second) frames_of.back() += std::ssize(utterances.alignment(i));
  }
  SpeakerTransforms transforms;
  SpreadInOrder<Matrix>(
      team, frames_of, num_threads, Spread::kToAll,
      [&](size_t s) {
        std::vector<hmm::SpeakerUtterance> speech;
        for (const size_t i : speakers[s]->second) {
          if (utterances.alignment(i).empty()) continue;
          speech.push_back({[&, i](const auto& use) { utterances.features(i, use); }, utterances.alignment(i)});
        }
        return EstimateSpeakerTransform(model, speech, min_frames, prior);
      },
      [&](size_t s, Matrix&& transform) { transforms.emplace(speakers[s]->first, std::move(transform)); });
  return transforms;
}

SpeakerTransforms ReadSpeakerTransforms(const std::string& scp) {
  data::RequireTableAsWritten(scp);
  const data::RandomAccessReader<Matrix> table(scp);
  SpeakerTransforms transforms;
  for (const std::string& speaker : table.keys()) transforms.emplace(speaker, table.Get(speaker));
  return transforms;
}

void WriteSpeakerTransforms(const SpeakerTransforms& transforms, const std::filesystem::path& folder) {
  data::TableWriter<Matrix> table(folder / "fmllr.ark", {.checksums = true});
  for (const auto& [speaker, transform] : transforms) table.Write(speaker, transform);
  table.Close();
}

}  // namespace antiphon::pipeline
