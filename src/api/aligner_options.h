// What an Aligner is made with: the options of its parts, as `antiphon align` names them.
//
// Threads: plain data.
#pragma once

#include "base/options.h"
#include "hmm/gmm_trainer.h"
#include "hmm/lexicon.h"
#include "infer/nnet_scorer.h"
#include "pipeline/align_with_model.h"

namespace antiphon {

struct AlignerOptions {
  bool adapt = true;
  int threads = 0;
  hmm::LexiconOptions lexicon;
  hmm::GmmTrainingOptions training;
  pipeline::GapOptions gaps;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("adapt", adapt, "estimate and use the speaker's transform if the model is trained for it");
    v("threads", threads, Range{0, 4096}, "that a call computes with; 0: all cores");
    v.Group("lexicon-options", lexicon);
    training.Visit(v);
    gaps.Visit(v);
    v.Group("nnet", nnet);
  }
};

}  // namespace antiphon
