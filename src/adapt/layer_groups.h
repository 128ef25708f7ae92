// Which layers of a network learn, and how fast: the groups that adaptation methods choose among, and layers put
// between others.
//
// A group is a layer with weights and what follows it up to the next one (its activation, normalisation, dropout).
// Errors: UsageError for choices that leave nothing to learn.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "adapt/method.h"
#include "base/options.h"
#include "nn/network_parts.h"

namespace antiphon::adapt {

struct LayerGroup {
  size_t first = 0;
  size_t last = 0;  // one beyond
};
/// From the bottom up; layers below the first one with weights belong to none.
std::vector<LayerGroup> GroupLayers(const nn::Network& network);

struct LayerChoiceOptions {
  std::string train = "all";
  int layers = 1;
  double rate_below = 1.0;
  std::vector<std::string> rates = {};
  std::string statistics = "new";
  template <class V>
  void Visit(V& v) {
    v("train", train, OneOf{{"all", "top", "bottom"}}, "which layers learn; the others' values stay bit for bit");
    v("layers", layers, Range{1, 10000}, "with train = 'top' or 'bottom': how many layers with weights");
    v("rate-below", rate_below, Range{0.0001, 10000.0},
      "factor on the learning rate from each learning layer to the next one below");
    v("rates", rates,
      "factors on the learning rates of single layers, beside rate-below: ['affine1 = 0.1', 'lstm1 = 0']; 0: the layer "
      "stays as it is");
    v("statistics", statistics, OneOf{{"new", "old"}},
      "of learning layers' batch normalisation: gathered anew from the new speech, or as they are");
  }
};

/// Freezes and slows down layers of `parts`, the network's; says so in `changes`.
void ChooseLearning(const nn::Network& network, const LayerChoiceOptions& options, std::vector<nn::LayerParts>& parts,
                    std::vector<Change>& changes);

/// Multiplies a layer's learning rate; 0 freezes it, running statistics included.
void ScaleRate(nn::LayerParts& layer, double factor);
void FreezeAll(std::vector<nn::LayerParts>& parts);

/// A new layer of `type` with the keys of `options`, which learns `rate` times as fast as others.
nn::LayerParts NewLayer(const std::string& name, const std::string& type, const std::string& options, double rate);

/// Puts the identity for a frame's features, a layer "frame-affine", before all others.
void InsertFrameTransform(const nn::Model& model, double rate, std::vector<nn::LayerParts>& parts);

/// Indices of the layers after which hidden values stand: activations (a group's last layer with a function), or those
/// called `only`, which the option `key` names. UsageError for names that there are not, and if there is none.
std::vector<size_t> HiddenOutputs(const std::vector<nn::LayerParts>& parts, const std::vector<std::string>& only,
                                  std::string_view key);

}  // namespace antiphon::adapt
