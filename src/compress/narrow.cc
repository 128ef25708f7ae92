#include "compress/narrow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/toml_text.h"
#include "nn/layer_traits.h"
#include "nn/network.h"

namespace antiphon::compress {
namespace {

constexpr int64_t kMultiple = 8;

struct Widths {
  int64_t old = 0;
  int64_t narrow = 0;
};

int64_t Share(int64_t n, double width) {
  if (width == 1) return n;
  const auto share = std::max<int64_t>(1, std::llround(width * static_cast<double>(n)));
  return share < kMultiple ? share : std::min(n, (share + kMultiple / 2) / kMultiple * kMultiple);
}

// A table of its own: handles on the same one would change together.
Config Copy(const Config& layer) {
  using enum nn::LayerTraits::Product;
  const auto product = nn::TraitsOf(layer.RequiredText("type")).product;
  if (product != kMasked && product != kRounded && product != kCompact) {
    return Config::Parse(layer.ToToml(), layer.Where());
  }
  Config affine = Config::Parse("type = \"affine\"", layer.Where());
  for (const char* key : {"name", "dim"}) affine.Set(key, ValueAsToml(layer, key));
  return affine;
}

class Chain {
 public:
  /// `channels`: values per position of what comes in, if a convolution made it.
  Chain(double width, Widths inputs, std::optional<Widths> channels)
      : width_(width), inputs_(inputs), channels_(channels) {}

  /// `outputs`: how many the chain must give; null: as many as follow.
  std::vector<Config> Narrow(const std::vector<Config>& layers, std::optional<Widths> outputs) {
    const size_t last = outputs ? LastWithWidth(layers) : layers.size();
    std::vector<Config> narrow;
    for (size_t i = 0; i < layers.size(); ++i) {
      Config layer = Copy(layers[i]);
      if (layer.Has("layers")) {
        const Widths in = {OutDim({layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(i)}, inputs_.old),
                           OutDim(narrow, inputs_.narrow)};
        NarrowInside(layer, in);
      } else {
        FollowChannels(layer);
        NarrowOne(layer, i == last ? outputs : std::nullopt);
      }
      narrow.push_back(std::move(layer));
    }
    return narrow;
  }

 private:
  // layers.size() if what comes last takes its width from inside.
  static size_t LastWithWidth(const std::vector<Config>& layers) {
    for (size_t i = layers.size(); i-- > 0;) {
      if (!WidthKey(layers[i]).empty()) return i;
      if (layers[i].Has("layers") && !nn::TraitsOf(layers[i].RequiredText("type")).shortcut) break;
    }
    return layers.size();
  }

  void NarrowInside(Config& layer, Widths inputs) {
    const bool shortcut = nn::TraitsOf(layer.RequiredText("type")).shortcut;
    Chain inside(width_, inputs, channels_);
    const std::vector<Config> narrow =
        inside.Narrow(layer.Tables("layers"), shortcut ? std::optional(inputs) : std::nullopt);
    layer.Set("layers", InlineTomlTables(narrow));
    if (!shortcut) channels_.reset();
  }

  void FollowChannels(Config& layer) const {
    if (channels_ && layer.Int("channels") == channels_->old) {
      layer.Set("channels", std::to_string(channels_->narrow));
    }
  }

  void NarrowOne(Config& layer, std::optional<Widths> outputs) {
    const std::string key = WidthKey(layer);
    if (key.empty()) return;
    const int64_t old = *layer.Int(key);
    int64_t narrow = Share(old, width_);
    if (outputs && outputs->narrow == outputs->old) {
      narrow = old;
    } else if (outputs && key != "filters") {  // those follow from the channels
      narrow = outputs->narrow;
    }
    if (key == "projection") layer.Set("dim", std::to_string(Share(*layer.Int("dim"), width_)));
    layer.Set(key, std::to_string(narrow));
    channels_ = key == "filters" ? std::optional(Widths{old, narrow}) : std::nullopt;
  }

  double width_;
  Widths inputs_;
  std::optional<Widths> channels_;
};

}  // namespace

std::string WidthKey(const Config& layer) {
  using enum nn::LayerTraits::Product;
  const auto product = nn::TraitsOf(layer.RequiredText("type")).product;
  if (product == kFixed || product == kPerFrame) return "";
  if (layer.Int("projection").value_or(0) > 0) return "projection";
  for (const char* key : {"dim", "filters"}) {
    if (layer.Has(key)) return key;
  }
  return "";
}

int OutDim(const std::vector<Config>& layers, int in_dim) {
  if (layers.empty()) return in_dim;
  const Config chain = Config::Parse("layer = " + InlineTomlTables(layers), "layers");
  return nn::Network(chain, in_dim, 0, 0, nn::InitialValues::kOutline).out_dim();
}

std::vector<Config> Narrower(const std::vector<Config>& layers, int in_dim, double width) {
  const int64_t out = OutDim(layers, in_dim);
  return Chain(width, {in_dim, in_dim}, std::nullopt).Narrow(layers, Widths{out, out});
}

}  // namespace antiphon::compress
