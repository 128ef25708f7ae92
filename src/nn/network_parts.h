// A network taken apart into layers that can be exchanged, and put together again.
//
//   std::vector<LayerParts> parts = TakeApart(network);
//   parts[2] = …;
//   network = PutTogether(parts, network.in_dim());
//
// With opened shortcuts the layers that a `residual` leads around stand in the list too, right behind it, called
// "residual3.affine1": whoever exchanges single layers need not know where they stand.
//
// Shapes: tensors by the name that the layer gives them ("weight", "bias", "statistics"); [out, in] for weights.
// Threads: plain functions. Errors: InputError if the parts do not fit together.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "math/matrix.h"
#include "nn/layer_traits.h"
#include "nn/network.h"

namespace antiphon::nn {

struct LayerParts {
  std::string name;  // "affine1"; in an opened shortcut "residual3.affine1"
  std::string type;
  Config config;  // the layer's table, type and name included
  std::map<std::string, Matrix> tensors;
  std::string inside = {};  // name of the opened shortcut around it; empty: none

  const Matrix& weight() const { return tensors.at("weight"); }
};

enum class Shortcuts { kWhole, kOpened };
std::vector<LayerParts> TakeApart(const Network& network, Shortcuts shortcuts = Shortcuts::kWhole);
Network PutTogether(const std::vector<LayerParts>& parts, int in_dim);

/// A copy of the network with the first member in the place of each ensemble that is a layer of its own; its layers
/// keep their names, behind "ensemble1.member1." where others have them.
Network FirstMemberOf(const Network& network);

/// Lets `change` change the chains inside a layer's table: `layers`, and those of each of `members`.
void ChangeChains(Config& layer, const std::function<void(std::vector<Config>& chain)>& change);

/// Whether a layer is called so; and a name that none has: "lhuc1", "lhuc2" …
bool HasLayer(const std::vector<LayerParts>& parts, const std::string& name);
std::string FreeName(const std::vector<LayerParts>& parts, const std::string& base);

/// A layer of `type` with the keys of `options` and what `like` has of common keys (learning rate, …), where `like`
/// stands.
LayerParts MakeLayer(const LayerParts& like, std::string name, std::string type, const Config& options);

inline const LayerTraits& TraitsOf(const LayerParts& layer) { return TraitsOf(layer.type); }
/// Fully connected with stored weights [out, in], whatever they are rounded to.
inline bool IsDense(const LayerParts& layer) { return IsDense(TraitsOf(layer)); }
/// The layer's bias [1, out], zeros if it has none.
Matrix BiasOf(const LayerParts& layer);

/// Indices of the layers of `types` that a method works on: those called `only`, or all but the first and the last
/// `skip_…` of them. UsageError for names that there are not, and if none is left.
struct LayerChoice {
  std::vector<std::string> only;
  bool skip_first = false;
  bool skip_last = false;
};
std::vector<size_t> ChooseLayers(const std::vector<LayerParts>& parts, const std::vector<std::string>& types,
                                 const LayerChoice& choice);

/// Numbers that the network learns, without those that masks hold at zero; and its bytes in a file.
struct NetworkSize {
  int64_t parameters = 0;
  int64_t bytes = 0;
};
NetworkSize SizeOf(const Network& network);

}  // namespace antiphon::nn
