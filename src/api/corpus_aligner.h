// What a public CorpusAligner is made of, and how the program makes one by options of its own, which runs in all
// processes that were started with this one.
//
// Threads: const methods; one Run at a time per folder.
#pragma once

#include <string>

#include "antiphon/corpus_aligner.h"
#include "api/internal.h"
#include "pipeline/align_request.h"
#include "pipeline/stage_host.h"

namespace antiphon {

struct ANTIPHON_INTERNAL CorpusAligner::Impl {
  pipeline::AlignRequest request;
  pipeline::StageHost host;
  CancelToken cancel = {};
  std::string missing = {};  // why Run cannot begin; "": it can
};

struct CorpusAlignerAccess {
  /// Run's outcome is that of the first process; the others get an empty one. The seed is the host's.
  static CorpusAligner Make(pipeline::AlignRequest request, pipeline::StageHost host);
};

}  // namespace antiphon
