// Time-delay layer: y_t = W·[x_{t+o₁}; …; x_{t+o_k}] + b.
//
// Written for a "splice" with `offsets` and `stride`, and an "affine" layer with all other keys.
// Source: as splice.cc.
#include "nn/network.h"

namespace antiphon::nn {
namespace {

std::unique_ptr<LayerExpansion> ExpandTdnn(const Config& table) {
  Config splice = table.Copy();
  Config affine = table.Copy();
  for (const std::string& key : table.Keys()) (key == "offsets" || key == "stride" ? affine : splice).Erase(key);
  splice.Set("type", "\"splice\"");
  affine.Set("type", "\"affine\"");
  if (const auto name = table.Text("name")) splice.Set("name", "\"" + *name + ".splice\"");
  auto expansion = std::make_unique<LayerExpansion>();
  expansion->layers = {splice, affine};
  return expansion;
}

REGISTER_COMPONENT(LayerExpansionRegistry, "tdnn", &ExpandTdnn);

}  // namespace
}  // namespace antiphon::nn
