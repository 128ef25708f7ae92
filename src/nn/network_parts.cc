#include "nn/network_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "base/toml_text.h"
#include "nn/layers/ensemble.h"
#include "nn/layers/residual.h"
#include "nn/parameter_storage.h"

namespace antiphon::nn {
namespace {

// Of "affine1.weight", what the layer calls it.
std::string OwnName(const Parameter& p, const std::string& layer) { return p.name.substr(layer.size() + 1); }

template <class Use>
void ForTensors(Layer& layer, Use use) {
  for (Parameter* p : layer.parameters()) use(*p);
  for (Parameter* p : layer.buffers()) use(*p);
}

// Layer hands out its parameters for writing only; nothing is written here.
Layer& Readable(const Network& network, size_t i) { return const_cast<Layer&>(network.layer(i)); }

// `inside`: the shortcut whose chain the network is; empty: none.
void AppendParts(const Network& network, const std::string& inside, Shortcuts shortcuts,
                 std::vector<LayerParts>& parts) {
  const std::vector<Config> tables = Config::Parse(network.ToToml(), "network").Tables("layer");
  for (size_t i = 0; i < network.num_layers(); ++i) {
    const std::string name = inside.empty() ? network.layer_name(i) : inside + "." + network.layer_name(i);
    LayerParts layer{name, network.layer_type(i), tables[i], {}, inside};
    const auto* const shortcut =
        shortcuts == Shortcuts::kOpened ? dynamic_cast<const Residual*>(&network.layer(i)) : nullptr;
    if (shortcut == nullptr) {
      ForTensors(Readable(network, i), [&](const Parameter& p) {
        layer.tensors.emplace(OwnName(p, layer.name), Matrix(ConstMatrixView(p.value)));
      });
    }
    parts.push_back(std::move(layer));
    if (shortcut != nullptr) AppendParts(shortcut->inner(), name, shortcuts, parts);
  }
}

// Between an ensemble's name and those of its first member's layers.
const std::string kFirstMember = ".member1";

void AppendFirstMembers(const Network& network, const std::string& prefix, std::vector<LayerParts>& parts) {
  std::vector<LayerParts> own;
  AppendParts(network, prefix, Shortcuts::kWhole, own);
  for (size_t i = 0; i < own.size(); ++i) {
    const auto* const ensemble = dynamic_cast<const Ensemble*>(&network.layer(i));
    if (ensemble != nullptr) {
      AppendFirstMembers(ensemble->members().front().network, own[i].name + kFirstMember, parts);
      continue;
    }
    parts.push_back(std::move(own[i]));
    parts.back().inside.clear();
  }
}

// What a layer of a member is called in it.
std::string ShortName(const std::string& name) {
  const size_t at = name.rfind(kFirstMember + ".");
  return at == std::string::npos ? name : name.substr(at + kFirstMember.size() + 1);
}

// The layers of opened shortcuts back in them.
std::vector<LayerParts> Close(std::span<const LayerParts> parts) {
  std::vector<LayerParts> closed;
  for (size_t i = 0; i < parts.size();) {
    const LayerParts& outer = parts[i];
    size_t end = i + 1;
    while (end < parts.size() && (parts[end].inside + ".").starts_with(outer.name + ".")) ++end;
    const std::vector<LayerParts> chain = Close(parts.subspan(i + 1, end - i - 1));
    i = end;
    closed.push_back(outer);
    if (chain.empty()) continue;
    LayerParts& layer = closed.back();
    std::vector<Config> tables;
    for (const LayerParts& inner : chain) {
      const std::string own = inner.name.substr(layer.name.size() + 1);
      // A table of its own: handles on the same one would change together.
      tables.push_back(Config::Parse(inner.config.ToToml(), inner.config.Where()));
      tables.back().Set("name", TomlString(own));
      const std::string prefix = own + ".";
      for (const auto& [name, tensor] : inner.tensors) layer.tensors[prefix + name] = tensor;
    }
    layer.config = Config::Parse(layer.config.ToToml(), layer.config.Where());
    layer.config.Set("layers", InlineTomlTables(tables));
  }
  return closed;
}

}  // namespace

std::vector<LayerParts> TakeApart(const Network& network, Shortcuts shortcuts) {
  std::vector<LayerParts> parts;
  AppendParts(network, "", shortcuts, parts);
  return parts;
}

Network PutTogether(const std::vector<LayerParts>& opened, int in_dim) {
  const std::vector<LayerParts> parts = Close(opened);
  std::string toml;
  for (const LayerParts& layer : parts) toml += "[[layer]]\n" + layer.config.ToToml() + "\n";
  Network network(Config::Parse(toml, "compressed network"), in_dim, 0, 0, InitialValues::kToBeSet);
  for (size_t i = 0; i < parts.size(); ++i) {
    ForTensors(network.layer(i), [&](Parameter& p) {
      const auto found = parts[i].tensors.find(OwnName(p, parts[i].name));
      if (found == parts[i].tensors.end()) return;  // keeps the value that the layer begins with
      const Matrix& from = found->second;
      if (from.rows() != p.value.rows() || from.cols() != p.value.cols()) {
        Throw<InputError>("'{}' would be [{}, {}], its values are [{}, {}]", p.name, p.value.rows(), p.value.cols(),
                          from.rows(), from.cols());
      }
      std::copy_n(from.data(), from.size(), p.value.data());
    });
  }
  for (Parameter* p : network.buffers()) p->MarkChanged();
  network.MarkChanged();
  return network;
}

Network FirstMemberOf(const Network& network) {
  std::vector<LayerParts> parts;
  AppendFirstMembers(network, "", parts);
  std::map<std::string, int> times;
  for (const LayerParts& part : parts) ++times[ShortName(part.name)];
  for (LayerParts& part : parts) {
    if (times[ShortName(part.name)] == 1) part.name = ShortName(part.name);
    part.config.Set("name", TomlString(part.name));
  }
  return PutTogether(parts, network.in_dim());
}

void ChangeChains(Config& layer, const std::function<void(std::vector<Config>& chain)>& change) {
  const auto change_list = [&](Config& table) {
    if (!table.Has("layers")) return;
    std::vector<Config> chain = table.Tables("layers");
    change(chain);
    table.Set("layers", InlineTomlTables(chain));
  };
  change_list(layer);
  if (!layer.Has("members")) return;
  std::vector<Config> members = layer.Tables("members");
  for (Config& member : members) change_list(member);
  layer.Set("members", InlineTomlTables(members));
}

bool HasLayer(const std::vector<LayerParts>& parts, const std::string& name) {
  return std::ranges::any_of(parts, [&](const LayerParts& layer) { return layer.name == name; });
}

std::string FreeName(const std::vector<LayerParts>& parts, const std::string& base) {
  for (int i = 1;; ++i) {
    std::string name = fmt::format("{}{}", base, i);
    if (!HasLayer(parts, name)) return name;
  }
}

LayerParts MakeLayer(const LayerParts& like, std::string name, std::string type, const Config& options) {
  LayerParts layer{
      std::move(name), std::move(type), Config::Parse(options.ToToml(), like.config.Where()), {}, like.inside};
  for (const char* key : {"learning-rate-factor", "weight-decay-factor", "max-change"}) {
    if (const auto value = like.config.Real(key)) layer.config.Set(key, fmt::format("{}", *value));
  }
  layer.config.Set("type", TomlString(layer.type));
  layer.config.Set("name", TomlString(layer.name));
  return layer;
}

Matrix BiasOf(const LayerParts& layer) {
  const auto bias = layer.tensors.find("bias");
  return bias != layer.tensors.end() ? bias->second : Matrix(1, layer.weight().rows());
}

std::vector<size_t> ChooseLayers(const std::vector<LayerParts>& parts, const std::vector<std::string>& types,
                                 const LayerChoice& choice) {
  std::vector<size_t> all;
  std::vector<std::string> names;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (std::find(types.begin(), types.end(), parts[i].type) == types.end()) continue;
    all.push_back(i);
    names.push_back(parts[i].name);
  }
  if (!choice.only.empty()) {
    std::vector<size_t> chosen;
    for (const std::string& name : choice.only) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) throw UsageError(UnknownNameMessage("layer", name, names));
      chosen.push_back(all[static_cast<size_t>(at - names.begin())]);
    }
    std::sort(chosen.begin(), chosen.end());
    return chosen;
  }
  if (choice.skip_last && !all.empty()) all.pop_back();
  if (choice.skip_first && !all.empty()) all.erase(all.begin());
  if (all.empty()) {
    Throw<UsageError>("no layer is left to work on: the network has {} of type {}", names.size(),
                      fmt::join(types, ", "));
  }
  return all;
}

NetworkSize SizeOf(const Network& network) {
  NetworkSize size;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    ForTensors(Readable(network, i), [&](const Parameter& p) { size.bytes += StoredBytes(p); });
  }
  for (const Parameter* p : network.parameters()) size.parameters += NumKept(*p);
  return size;
}

}  // namespace antiphon::nn
