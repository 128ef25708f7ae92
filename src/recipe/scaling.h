// How large the models of a recipe are made, from how much speech there is.
//
// h: hours of training speech. All results are rounded and kept within limits:
//
// - leaves (tied states; the tree stops earlier if data are thin): 900 · h^0.6, multiple of 8, 96 … 10000
// - gaussians (of the triphone models): 7 · leaves
// - mono-gaussians: 600 · h^0.4, 250 … 1000
// - hidden-dim: 370 · h^0.25, multiple of 64, 256 … 2048
// - hidden-layers: 3 below half an hour, 4 below 2 hours, 5 below 50, then 6
// - epochs: 6 / √h, 2 … 12
// - chain-dim of chain models: 512 · h^0.25, multiple of 64, 256 … 1536 (published: 768 for 5 h, 1536 for 1000 h);
//   chain-bottleneck: an eighth of it, multiple of 16; chain-layers above the third frame: 4 below half an hour, 6
//   below 2 hours, then 8
// - chain-epochs, each with a third of the outputs: 30 / √h, 12 … 40
//
// The exponents follow what published recipes use from 1 to 1000 hours: about a hundred times the data, fifteen times
// the states and thrice the width.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace antiphon::recipe {

struct ModelSizes {
  double hours = 0.0;
  int leaves = 0;
  int gaussians = 0;
  int mono_gaussians = 0;
  int hidden_dim = 0;
  int hidden_layers = 0;
  int epochs = 0;
  int chain_dim = 0;
  int chain_bottleneck = 0;
  int chain_layers = 0;
  int chain_epochs = 0;
};

/// `hours` > 0.
ModelSizes SizesFor(double hours);

/// What there is to choose, by those keys.
std::vector<std::pair<const char*, int>> NumbersOf(const ModelSizes& sizes);
/// As `key = value` lines, for a recipe's `provides`; keys as above with '_' for '-'.
std::string ToToml(const ModelSizes& sizes);

}  // namespace antiphon::recipe
