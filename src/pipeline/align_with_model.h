// Alignment by a trained model, GMM or network; a speaker-adaptive one estimates the speakers' transforms on the way.
//
// Threads: utterances in parallel; the result does not depend on how many. Errors: InputError naming the utterance.
#pragma once

#include <cstdint>
#include <vector>

#include "base/team.h"
#include "hmm/gmm_trainer.h"
#include "hmm/lexicon.h"
#include "hmm/utterance_source.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/long_alignment.h"

namespace antiphon::pipeline {

struct AlignByModelOptions {
  const hmm::GmmTrainingOptions& training;  // align, map_unknown_words, min_fmllr_frames
  const GapOptions& gaps;
  bool adapt = true;
  double feature_shift_s = 0.01;
};

/// On all members of the team. `sizes`: measures of the utterances' lengths. The result's model is empty, its report
/// has no stages.
hmm::GmmTrainingResult AlignWithModel(const AcousticModel& model, const hmm::UtteranceSource& source,
                                      const std::vector<int64_t>& sizes, const hmm::Lexicon& lexicon,
                                      const AlignByModelOptions& options, int num_threads, Team& team);

/// The phones of its alignments in frames of the features, where the model's own are coarser and it has Gaussians that
/// find them (pipeline/finer_phones.h); empty if it has none. On all members of the team.
std::vector<std::vector<hmm::AlignedPhone>> FinerPhonesOf(
    const AcousticModel& model, const hmm::UtteranceSource& source, const std::vector<int64_t>& sizes,
    const hmm::GmmTrainingResult& result, const AlignByModelOptions& options, int num_threads, Team& team);

}  // namespace antiphon::pipeline
