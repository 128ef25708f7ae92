// A small system for tests of what recognises: two words in any order, on a network of random weights.
#pragma once

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "base/random.h"
#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "hmm/graph/openfst.h"
#include "hmm/lexicon.h"
#include "nn/model.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon::testing {

constexpr int kCeps = 5;
constexpr int kRateHz = 8000;

/// Layers "affine1", "sigmoid1" with kHidden values, "affine2"; windows of six frames.
constexpr int kHidden = 12;

struct TwoWords {
  /// The folder gets net.safetensors, gmm.safetensors and graph. With a transform, what the network takes of a frame is
  /// a GMM's transform of its features, of which the last `pitch_dim` tell the pitch; its Gaussians have
  /// this variance.
  explicit TwoWords(bool with_transform, int pitch_dim = 0, float variance = 1.0F)
      : gmm(SmallAdaptiveModel(kCeps + pitch_dim, variance)) {
    gmm.features = "kind = 'mfcc'\nsample-rate = 8000\nmel-bins = 10\nceps = 5\ndither = 0.0\n";
    if (pitch_dim > 0) gmm.features += "pitch-dim = " + std::to_string(pitch_dim) + "\n";
    gmm.Save(folder / "gmm.safetensors");
    network.feature_config = gmm.features;
    network.feature_dim = (with_transform ? 3 : 1) * (kCeps + pitch_dim);
    network.left_context = 2;
    network.right_context = 3;
    network.network = nn::Network(
        Config::Parse("layer = [{type = 'affine', dim = 12, init-scale = 3.0}, {type = 'sigmoid'}, {type = 'affine', "
                      "init-scale = 20.0}]",
                      "net.toml"),
        6 * network.feature_dim, gmm.hmm.num_pdfs(), 7);
    network.hmm_json = gmm.hmm.ToJson();
    network.log_priors.assign(static_cast<size_t>(gmm.hmm.num_pdfs()), -1.0F);
    if (with_transform) {
      const MappedFile file(folder / "gmm.safetensors");
      network.speaker_model.assign(file.bytes().begin(), file.bytes().end());
    }
    network.Save(folder / "net.safetensors");

    const hmm::Lexicon lexicon = TheLexicon();
    fst::StdVectorFst fst;
    decode::BuildGraphFst(gmm.hmm, lexicon, Grammar(), {}, &fst);
    decode::SaveGraph(fst, gmm.hmm, lexicon, "two words", {}, folder / "graph");
  }

  /// The same graph as `antiphon graph --on-the-fly` makes it, in the folder's "parts".
  void SaveParts() const {
    const hmm::Lexicon lexicon = TheLexicon();
    const decode::GraphParts parts(decode::BuildLexiconGraph(gmm.hmm, lexicon, {}),
                                   decode::WordAutomaton::FromFst(Grammar(), lexicon.backoff_word(), 10));
    decode::SaveParts(parts, gmm.hmm, lexicon, nullptr, "two words", {}, folder / "parts");
  }

  static hmm::Lexicon TheLexicon() {
    hmm::LexiconOptions options;
    options.silence_phones = {"SIL"};
    options.position_dependent = false;
    return hmm::Lexicon::Parse("ONE A\nTWO B\n", "lexicon.txt", options);
  }

  static fst::StdVectorFst Grammar() {
    fst::StdVectorFst grammar;
    grammar.AddState();
    grammar.SetStart(0);
    grammar.SetFinal(0, 0.5F);
    for (int32_t word = 1; word <= 2; ++word) grammar.AddArc(0, {word, word, 1.0F, 0});
    return grammar;
  }

  const TemporaryFolder folder;
  hmm::GmmModel gmm;
  nn::Model network;
};

/// Loud and soft parts of changing colour, on the 16-bit scale.
inline std::vector<float> Noise(int samples) {
  Rng rng(9);
  std::vector<float> audio(static_cast<size_t>(samples));
  double state = 0;
  for (size_t i = 0; i < audio.size(); ++i) {
    state = (0.5 + 0.4 * std::sin(static_cast<double>(i) / 3000)) * state + rng.Normal();
    audio[i] = static_cast<float>(2000 * (1 + std::sin(static_cast<double>(i) / 1500)) * state);
  }
  return audio;
}

}  // namespace antiphon::testing
