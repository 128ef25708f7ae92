// Vectors that say who speaks, for a network to read beside the features.
//
// Leaves ivectors.scp and, if an extractor is trained, extractor.safetensors. Online, the table has matrices, one row
// for every `period` frames, each of the speech up to then, and ivectors.toml (data/speaker_vectors.h) says so.
// Threads: one caller; the vectors do not depend on how many compute. Errors: UsageError and InputError naming table
// and utterance.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/options.h"
#include "data/feature_source.h"
#include "hmm/ivector.h"

namespace antiphon::pipeline {

/// Of an extractor that is trained.
struct IvectorTrainingOptions {
  std::string alignment;
  int lda_dim = 40;
  int lda_context = 3;
  int dim = 20;
  int iterations = 10;
  double prior_offset = 0;
  hmm::IvectorOptions use;
  hmm::BackgroundOptions background;

  template <class V>
  void Visit(V& v) {
    v("alignment", alignment,
      "table of pdf-ids by frame (pdf.scp): the extractor sees what discriminates between them best (LDA); empty: the "
      "features as they are");
    v("lda-dim", lda_dim, Range{1, 10000}, "dimensions that LDA leaves");
    v("lda-context", lda_context, Range{0, 100}, "frames to each side that LDA sees");
    v("dim", dim, Range{1, 1000}, "numbers in a vector");
    v("iterations", iterations, Range{1, 1000}, "EM iterations for what speakers differ in");
    v("prior-offset", prior_offset, Range{0.0, 1e6},
      "where the first number begins, so that it learns the Gaussians' means (100, say); 0: the background's means "
      "stay");
    use.Visit(v);
    background.Visit(v);
  }
};

struct IvectorRequest {
  std::string out, extractor;
  std::string per = "speaker";
  int speaker_utterances = 0;
  bool online = false;
  IvectorTrainingOptions training;
  data::FeatureSourceOptions features;

  template <class V>
  void Visit(V& v) {
    v("out", out, "folder for ivectors.scp and, if one is trained, extractor.safetensors");
    v("extractor", extractor,
      "extractor of an earlier run, and all options of it; empty: one is trained on these features");
    v("per", per, OneOf{{"speaker", "utterance"}}, "one vector for all that a speaker says, or one for each utterance");
    v("speaker-utterances", speaker_utterances, Range{0, 1 << 20},
      "utterances after which a speaker counts as another one (2, online: training sees speakers of whom little is "
      "known); 0: never");
    v("online", online,
      "vectors of what was said up to now, as live recognition has them: one for every `period` frames");
    training.Visit(v);
    features.Visit(v);
  }

  // Not options of their own.
  uint64_t seed = 1;
  int threads = 1;
};

struct IvectorReport {
  size_t vectors = 0;
  int dim = 0;
  std::string per;
  std::string table;
  struct Training {
    int gaussians = 0;
    double gain = 0.0;  // nats per speaker or utterance over none
  };
  std::optional<Training> training;
};

IvectorReport MakeIvectors(const IvectorRequest& request);

nlohmann::json ToJson(const IvectorReport& report);
std::string Sentence(const IvectorReport& report);

}  // namespace antiphon::pipeline
