// Vectors that say who speaks, for a network to read beside the features.
//
// Leaves ivectors.scp and, if an extractor is trained, extractor.safetensors.
// Threads: one caller. Errors: UsageError and InputError naming table and utterance.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/options.h"
#include "data/feature_source.h"
#include "hmm/ivector.h"

namespace antiphon::pipeline {

struct IvectorRequest {
  std::string out, extractor;
  std::string per = "speaker";
  int dim = 20;
  int iterations = 10;
  double posterior_scale = 0.1;
  hmm::BackgroundOptions background;
  data::FeatureSourceOptions features;

  template <class V>
  void Visit(V& v) {
    v("out", out, "folder for ivectors.scp and, if one is trained, extractor.safetensors");
    v("extractor", extractor, "extractor of an earlier run; empty: one is trained on these features");
    v("per", per, OneOf{{"speaker", "utterance"}}, "one vector for all that a speaker says, or one for each utterance");
    v("dim", dim, Range{1, 1000}, "numbers in a vector");
    v("iterations", iterations, Range{1, 1000}, "EM iterations for what speakers differ in");
    v("posterior-scale", posterior_scale, Range{1e-6, 1},
      "what a frame counts: frames that follow each other say much the same");
    background.Visit(v);
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
