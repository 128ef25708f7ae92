// An alignment: from transcribed speech to a Gaussian model and times of its states, or to times by a model that is
// there.
//
// Leaves ali.scp, pdf.scp, phones.ctm and words.ctm (pipeline/align_output.h), report.txt and report.json;
// model.safetensors of a training; fmllr.scp of a model that adapts to speakers; features/ and data/ where they had to
// be made. An earlier run's fmllr.scp is removed, and with a model given its model.safetensors gets ".old" behind its
// name.
// Threads: one caller per member of the team. Errors: UsageError and InputError, naming file or utterance.
#pragma once

#include "base/team.h"
#include "pipeline/align_report.h"
#include "pipeline/align_request.h"

namespace antiphon::pipeline {

/// On all members of the team; the first writes, and gets the report.
AlignReport Align(const AlignRequest& request, Team& team, int num_threads);

}  // namespace antiphon::pipeline
