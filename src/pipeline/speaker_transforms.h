// Speakers' transforms (fMLLR) from their utterances' alignments, for the commands that align and decode.
//
// Threads: the functions of SpokenUtterances are called from several at once. Files: Kaldi's table of matrices
// [dim, dim + 1] by speaker.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "base/team.h"
#include "hmm/gmm_fmllr.h"
#include "hmm/gmm_model.h"
#include "math/matrix.h"

namespace antiphon::pipeline {

/// Where words are recognised, not known, so much speech that needs no transform is counted in (frames; how it was
/// chosen: docs/results/sequence-training.md).
inline constexpr double kSpeakerPriorFrames = 100;

using SpeakerTransforms = std::map<std::string, Matrix>;

/// Utterances 0 … count − 1: who speaks, normalised base features part by part, transition-ids (empty: not aligned,
/// left out; otherwise as of hmm::SpeakerUtterance).
struct SpokenUtterances {
  size_t count = 0;
  std::function<std::string(size_t)> speaker;
  std::function<void(size_t, const hmm::UseBaseFeatures& use)> features;
  std::function<std::span<const int32_t>(size_t)> alignment;
};

/// One transform per speaker of any utterance; the identity where there are fewer than `min_frames` of speech.
/// The same on all members of the team, each of which computes some.
SpeakerTransforms EstimateSpeakerTransforms(const hmm::GmmModel& model, const SpokenUtterances& utterances,
                                            double min_frames, const hmm::FmllrPrior& prior, int num_threads,
                                            Team& team);

/// The table that an earlier run left (fmllr.scp).
SpeakerTransforms ReadSpeakerTransforms(const std::string& scp);
/// fmllr.ark and fmllr.scp in `folder`.
void WriteSpeakerTransforms(const SpeakerTransforms& transforms, const std::filesystem::path& folder);

}  // namespace antiphon::pipeline
