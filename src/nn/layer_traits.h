// What is known of all layers of a type, so that nobody else asks for a layer's name.
//
// A type that has something to say registers it beside the layer:
//   REGISTER_COMPONENT(LayerTraitsRegistry, "relu", Traits({.nonlinearity = true, .units_apart = true}));
// A type without such a line has none of the properties. A property says what a layer does, and whoever rewrites,
// divides or adapts a network decides by it what can be done with the layer.
// Threads: read-only. Errors: none; an unknown type has the traits of one that says nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.h"

namespace antiphon::nn {

class Network;

struct LayerTraits {
  /// A layer that is one product, y = W·x with or without "bias", and how it holds W.
  enum class Product {
    kNone,      // it is something else
    kPlain,     // in full, as "weight" [out, in]
    kMasked,    // as "weight" [out, in] with a "mask" that holds most of it at zero
    kRounded,   // as "weight" [out, in], rounded to few values in each pass
    kCompact,   // in another form than a matrix of weights: signs, circulant blocks
    kFixed,     // set from data, and not trained
    kPerFrame,  // one small matrix for each frame of the input window
  };
  /// What the layer is in a speaker's profile, if it was added to the shared model.
  enum class ProfilePart { kNone, kScale, kMatrix };

  Product product = Product::kNone;
  ProfilePart profile = ProfilePart::kNone;
  bool divisible = false;         // several ranks may hold its outputs together (LayerArgs::outputs)
  bool splices = false;           // its outputs are copies of inputs, several frames side by side
  bool batch_statistics = false;  // scales by statistics of the data that training passes through it
  bool input_scaling = false;     // zero mean and unit variance for features, by moments that are set before training
  bool nonlinearity = false;      // ends a hidden layer
  bool units_apart = false;       // output i depends on input i alone, and its values belong to single units
  bool scale_passes = false;      // f(a·x) = a·f(x) for each unit and a > 0
  bool drops_units = false;       // sets single units to zero in training, and does nothing in scoring
  bool shortcut = false;          // adds its input to the output of the chain inside, so that both have one width
  bool auxiliary = false;         // the head of an auxiliary task: the network scores the same without it
};

using LayerTraitsRegistry = Registry<LayerTraits>;

/// What REGISTER_COMPONENT takes.
std::function<std::unique_ptr<LayerTraits>()> Traits(const LayerTraits& traits);

const LayerTraits& TraitsOf(std::string_view type);
/// Of layer i.
const LayerTraits& TraitsOf(const Network& network, size_t i);

/// Fully connected with stored weights [out, in], whatever they are rounded to.
inline bool IsDense(const LayerTraits& traits) {
  using enum LayerTraits::Product;
  return traits.product == kPlain || traits.product == kMasked || traits.product == kRounded;
}

/// Types of layers with one of these products, in the order of `products`, each kind sorted.
std::vector<std::string> TypesWith(const std::vector<LayerTraits::Product>& products);

}  // namespace antiphon::nn
