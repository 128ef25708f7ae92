// Where phones begin and end, to a frame of the features, of an alignment by a network that scores only every third of
// them (a chain model): the same phones aligned once more by the Gaussians that the model has beside the network.
//
// What lies between two long pauses is aligned for itself. A stretch in which the Gaussians would move a boundary by
// more than a tenth of a second, or find no path, keeps the network's times: they have lost their way. So does speech
// that the text lacks.
//
// Units: rows of the features. Threads: pure functions. Errors: those of the search.
#pragma once

#include <vector>

#include "hmm/aligner.h"
#include "math/matrix.h"
#include "pipeline/acoustic_model.h"

namespace antiphon::pipeline {

/// Whether the model's frames are coarser than those of the features, and it has Gaussians that know its phones.
bool HasFinerPhones(const AcousticModel& model);

/// `alignment` must be ok(), and by a model of which HasFinerPhones is true; `transform`: the speaker's, null if it is
/// not known; `feature_shift_s`: from one row to the next.
std::vector<hmm::AlignedPhone> FinerPhones(const AcousticModel& model, const hmm::Alignment& alignment,
                                           const Matrix& features, const Matrix* transform, double feature_shift_s,
                                           const hmm::AlignOptions& options);

}  // namespace antiphon::pipeline
