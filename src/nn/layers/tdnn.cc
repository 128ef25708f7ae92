// Time-delay layer: y_t = W·[x_{t+o₁}; …; x_{t+o_k}] + b.
//
// Written for a "splice" with `offsets` and `stride`, and an "affine" layer with all other keys.
// Source: as splice.cc.
#include <fmt/format.h>

#include "base/toml_text.h"
#include "nn/network.h"

namespace antiphon::nn {
namespace {

std::unique_ptr<LayerExpansion> ExpandTdnn(const Config& table) {
  Config splice = Config::Parse("type = \"splice\"", table.Where());
  Config affine = Config::Parse("type = \"affine\"", table.Where());
  if (const auto name = table.Text("name")) {
    splice.Set("name", TomlString(*name + ".splice"));
    affine.Set("name", TomlString(*name));
  }
  if (const auto offsets = table.Ints("offsets")) splice.Set("offsets", fmt::format("[{}]", fmt::join(*offsets, ", ")));
  for (const std::string& key : table.Keys()) {
    if (key == "type" || key == "name" || key == "offsets") continue;
    (key == "stride" ? splice : affine).Set(key, *table.AnyAsText(key));
  }
  auto expansion = std::make_unique<LayerExpansion>();
  expansion->layers = {splice, affine};
  return expansion;
}

REGISTER_COMPONENT(LayerExpansionRegistry, "tdnn", &ExpandTdnn);

}  // namespace
}  // namespace antiphon::nn
