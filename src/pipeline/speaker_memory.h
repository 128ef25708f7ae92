// What a system remembers of one speaker from utterance to utterance: the mean of the features, what the i-vector
// extractor counted, and the transform (fMLLR) that was learnt. The next utterance begins with it instead of from
// nothing.
//
// File: safetensors, with a checksum; it names the model that it is for. Units: frames, and counts as
// hmm::OnlineIvectorState. Threads: plain data. Errors: InputError naming the file, what it is for and what was found.
#pragma once

#include <filesystem>
#include <string>

#include "feat/online_mean.h"
#include "hmm/online_ivector.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/speaker_learning.h"

namespace antiphon {

struct RememberedSpeaker {
  std::string speaker = {};
  feat::SpeakerMean mean = {};
  hmm::OnlineIvectorState heard = {};
  pipeline::LearntTransform learnt = {};

  bool operator==(const RememberedSpeaker&) const = default;
};

/// Whether features of the model lose the mean of a sliding window live, instead of their speaker's (feat/cmvn.h).
bool SlidesMean(const AcousticModel& model);

/// Whether a model makes use of any: its features lose their mean as they come, it has an i-vector extractor, or is
/// trained for speakers' transforms.
bool UsesMemory(const AcousticModel& model);

void SaveMemory(const RememberedSpeaker& memory, const AcousticModel& model, const std::filesystem::path& path);
RememberedSpeaker LoadMemory(const std::filesystem::path& path, const AcousticModel& model);

/// FOLDER/NAME.safetensors; UsageError for a name that is none of a file.
std::filesystem::path MemoryFile(const std::filesystem::path& folder, const std::string& speaker);

}  // namespace antiphon
