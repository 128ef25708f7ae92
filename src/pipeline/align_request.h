// What an alignment is asked for: the options of antiphon align.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/feature_source.h"
#include "hmm/gmm_trainer.h"
#include "infer/nnet_scorer.h"
#include "pipeline/align_audio.h"
#include "pipeline/long_alignment.h"

namespace antiphon::pipeline {

struct AlignRequest {
  std::string data, lexicon, out, model, g2p;
  std::vector<std::string> files;
  bool adapt = true;
  double memory_mb = 4000;
  AlignAudioOptions audio;
  data::FeatureSourceOptions features;
  hmm::LexiconOptions lexicon_options;
  hmm::GmmTrainingOptions training;
  GapOptions gaps;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("data", data,
      "folder with text, utt2spk and (from antiphon features) feats.scp and cmvn.scp; or a data directory, or audio (a "
      "file or a folder, with --transcripts), whose features are computed");
    v("lexicon", lexicon, "pronunciations: WORD PHONE … per line; empty: those of the bundle");
    v("out", out,
      "folder for model.safetensors, ali.scp, pdf.scp, phones.ctm, words.ctm, scores.tsv, unaligned.tsv and "
      "report.txt");
    v("files", files, "a file per utterance besides, in out/FORMAT/: json, TextGrid");
    v("model", model, "align by this model (GMM or network, or what antiphon bundle made) instead of training one");
    v("g2p", g2p,
      "what antiphon g2p train made: pronounces the words that the lexicon lacks; empty: the bundle's, if it has one");
    v("adapt", adapt, "with --model: estimate and use speakers' transforms if the model is trained for it");
    v("memory-mb", memory_mb, Range{0, 1e9}, "features up to this size are kept in memory");
    audio.Visit(v);
    features.Visit(v);
    v.Group("lexicon-options", lexicon_options);
    training.Visit(v);
    gaps.Visit(v);
    v.Group("nnet", nnet);
  }

  // Not an option of its own.
  uint64_t seed = 1;
};

}  // namespace antiphon::pipeline
