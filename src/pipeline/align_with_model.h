// Alignment by a trained model, GMM or network; a speaker-adaptive one estimates the speakers' transforms on the way.
//
// Threads: utterances in parallel; the result does not depend on how many. Errors: InputError naming the utterance.
#pragma once

#include "base/team.h"
#include "hmm/gmm_trainer.h"
#include "hmm/lexicon.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/align_source.h"

namespace antiphon::pipeline {

/// On all members of the team. The result's model is empty, its report has no stages; options: align,
/// map_unknown_words, min_fmllr_frames.
hmm::GmmTrainingResult AlignWithModel(const AcousticModel& model, const AlignSource& source,
                                      const hmm::Lexicon& lexicon, const hmm::GmmTrainingOptions& options, bool adapt,
                                      int num_threads, Team& team);

}  // namespace antiphon::pipeline
