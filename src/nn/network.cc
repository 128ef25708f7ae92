#include "nn/network.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/option_recorder.h"
#include "base/toml_text.h"
#include "nn/layer_traits.h"

namespace antiphon::nn {
namespace {

constexpr int64_t kAlignment = 16;      // floats: 64 bytes
constexpr size_t kMostLayers = 100000;  // a few words of a description can ask for more than there is memory

struct RepeatOptions {
  int times = 1;
  template <class V>
  void Visit(V& v) {
    v("times", times, Range{0, 10000}, "how often the list `layers` stands in the chain");
  }
};

void RequireFewerLayers(size_t layers, const Config& table) {
  if (layers <= kMostLayers) return;
  Throw<UsageError>(
      "{}: a network has at most {} layers, those inside of others counted, and this makes it {}: set "
      "`times` of 'repeat' lower",
      table.Where(), kMostLayers, layers);
}

// The chain in order, with "repeat" and types that stand for several layers written out.
std::vector<Config> Expand(const std::vector<Config>& tables) {
  std::vector<Config> chain;
  const auto append = [&](const std::vector<Config>& layers, int times, const Config& table) {
    RequireFewerLayers(chain.size() + layers.size() * static_cast<size_t>(times), table);
    for (int i = 0; i < times; ++i) chain.insert(chain.end(), layers.begin(), layers.end());
  };
  for (const Config& table : tables) {
    const std::string type = table.RequiredText("type");
    if (LayerExpansionRegistry::Get().Has(type)) {
      append(Expand(LayerExpansionRegistry::Get().Create(type, table)->layers), 1, table);
      continue;
    }
    if (type != "repeat") {
      append({table}, 1, table);
      continue;
    }
    const auto options = ReadOptions<RepeatOptions>(table, {"type", "layers"});
    const std::vector<Config> inner = table.Tables("layers");
    if (inner.empty()) Throw<UsageError>("{}: 'repeat' needs `layers`, a list of layers", table.Where());
    append(Expand(inner), options.times, table);
  }
  return chain;
}

// Counts the layers of a network under construction together with those of the networks inside its layers.
class LayerCount {
 public:
  LayerCount() {
    if (depth_++ == 0) layers_ = 0;
  }
  LayerCount(const LayerCount&) = delete;
  LayerCount& operator=(const LayerCount&) = delete;
  ~LayerCount() { --depth_; }
  static void Add(size_t layers, const Config& table) { RequireFewerLayers(layers_ += layers, table); }

 private:
  static thread_local int depth_;
  static thread_local size_t layers_;
};
thread_local int LayerCount::depth_ = 0;
thread_local size_t LayerCount::layers_ = 0;

// The layer reads its other keys, and refuses those that nobody knows.
CommonLayerOptions ReadCommon(const Config& config) {
  const OptionRecorder aside;  // whoever lists a layer's own options does not want those of the layers inside it
  return ReadOptions<CommonLayerOptions>(config, config.Keys());
}

void Freeze(Layer& layer) {
  if (HasStatistics* const statistics = layer.statistics()) statistics->FreezeStatistics();
}

// Stands for a layer that another network holds.
class AbsentLayer : public Layer, public HasStatistics {
 public:
  explicit AbsentLayer(Layer& layer)
      : Layer(layer.in_dim(), 0),
        properties_(layer.properties()),
        toml_(layer.ToConfig().ToToml()),
        absorbs_(layer.absorbed_activation() != nullptr),
        has_statistics_(layer.has_statistics()),
        context_(layer.time_context()) {
    properties_.whole_out_dim = layer.whole_out_dim();
    for (const Parameter* p : layer.buffers()) buffers_.push_back(Outline(*p));
    for (const Parameter* p : layer.parameters()) {
      all_.push_back(Outline(*p));
      all_.back()->mask = OutlineOf(p->mask, layer.buffers());
    }
  }

  LayerProperties properties() const override { return properties_; }
  std::span<Parameter* const> parameters() override { return all_; }
  std::span<Parameter* const> buffers() override { return buffers_; }
  // A Config is a handle, and the network adds keys to what it gets.
  Config ToConfig() const override { return Config::Parse(toml_, "layer"); }
  Activation* absorbed_activation() override { return absorbs_ ? &absorbed_ : nullptr; }
  HasStatistics* statistics() override { return has_statistics_ ? this : nullptr; }
  // Whoever holds the layer gathers them.
  void ResetStatistics() override {}
  void AccumulateStatistics(Workspace&) override {}
  void ListStatistics(std::vector<Parameter*>&) override {}
  void ListStillInputs(std::vector<StillInputs>&) const override {}
  void FreezeStatistics() override { has_statistics_ = false; }
  TimeContext time_context() const override { return context_; }

 protected:
  void DoForward(const ExecContext&, ConstMatrixView, MatrixView, Workspace&) const override { CHECK(false); }
  void DoBackward(const ExecContext&, ConstMatrixView, Workspace&, MatrixView, GradientSink&) override { CHECK(false); }

 private:
  Parameter* Outline(const Parameter& p) {
    owned_.push_back(std::make_unique<Parameter>(p.name, 0, 0));
    owned_.back()->whole = {p.whole.rows, p.whole.cols, 0};
    owned_.back()->learning_rate_factor = p.learning_rate_factor;
    owned_.back()->storage = p.storage;
    return owned_.back().get();
  }
  const Parameter* OutlineOf(const Parameter* mask, std::span<Parameter* const> buffers) const {
    if (mask == nullptr) return nullptr;
    const auto found = std::ranges::find(buffers, mask);
    CHECK(found != buffers.end()) << mask->name;
    return buffers_[static_cast<size_t>(found - buffers.begin())];
  }

  LayerProperties properties_;
  std::string toml_;
  bool absorbs_;
  Activation absorbed_ = Activation::kNone;
  bool has_statistics_;
  TimeContext context_;
  std::vector<std::unique_ptr<Parameter>> owned_;
  std::vector<Parameter*> all_;
  std::vector<Parameter*> buffers_;
};

int64_t RoundUp(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

class Network::Names {
 public:
  /// "affine1", "affine2", …: the first that no layer has.
  std::string Free(const std::string& type) {
    int& last = last_[type];
    std::string name;
    do {
      name = fmt::format("{}{}", type, ++last);
    } while (taken_.contains(name));
    return name;
  }
  /// False if there is a layer of this name.
  bool Take(const std::string& name) { return taken_.insert(name).second; }

 private:
  std::set<std::string> taken_;
  std::map<std::string, int> last_;  // number, of each type
};

Network::Network(const Config& config, int in_dim, int out_dim, uint64_t seed, InitialValues values,
                 std::span<const OutputRange> held, ValueStorage storage)
    : in_dim_(in_dim), out_dim_(in_dim), network_out_dim_(out_dim), storage_(storage), held_(held.begin(), held.end()) {
  const LayerCount count;
  const std::vector<Config> tables = Expand(config.Tables("layer"));
  LayerCount::Add(tables.size(), config);
  if (tables.empty()) Throw<UsageError>("{}: a network needs at least one [[layer]]", config.Where());
  if (values == InitialValues::kOutline) held_.assign(tables.size(), OutputRange{0, 0});
  CHECK(held_.empty() || held_.size() == tables.size()) << held_.size() << " of " << tables.size();
  Names names;
  for (size_t i = 0; i < tables.size(); ++i) {
    AddLayer(tables[i], i + 1 == tables.size() ? out_dim : 0, MixSeed(seed, i), values, names,
             held_.empty() ? OutputRange{} : held_[i]);
  }
  if (out_dim != 0 && out_dim_ != out_dim) {
    Throw<UsageError>("{}: the last layer has {} outputs, but the task needs {} (leave out its `dim` to have it set)",
                      tables.back().Where("dim"), out_dim_, out_dim);
  }
  Finish();
}

void Network::AddLayer(const Config& config, int default_out_dim, uint64_t seed, InitialValues values, Names& names,
                       OutputRange held) {
  Entry entry;
  entry.type = config.RequiredText("type");
  entry.where = config.Where(config.Has("name") ? "name" : "type");
  const auto name = config.Text("name");
  entry.name = name ? *name : names.Free(entry.type);
  if (!names.Take(entry.name)) Throw<UsageError>("{}: two layers are called '{}'", entry.where, entry.name);
  const auto which = [&] { return fmt::format("{}: layer '{}'", config.Where("type"), entry.name); };
  const CommonLayerOptions common = WithContext([&] { return ReadCommon(config); }, which);
  entry.common = Config();
  if (config.Has("learning-rate-factor")) {
    entry.common.Set("learning-rate-factor", fmt::format("{}", common.learning_rate_factor));
  }
  if (config.Has("weight-decay-factor")) {
    entry.common.Set("weight-decay-factor", fmt::format("{}", common.weight_decay_factor));
  }
  if (config.Has("max-change")) entry.common.Set("max-change", fmt::format("{}", common.max_change));
  entry.layer = WithContext(
      [&] {
        const bool random = values == InitialValues::kRandom && held.count != 0;
        return LayerRegistry::Get().Create(entry.type, LayerArgs{out_dim_, config, default_out_dim, seed, random,
                                                                 layers_.size(), network_out_dim_, held});
      },
      which);
  if (held.count == 0) {
    entry.layer = std::make_unique<AbsentLayer>(*entry.layer);
  } else if (!held.all() && entry.layer->out_dim() != held.count) {
    Throw<UsageError>("{}: layer '{}' is '{}': only affine and linear layers can be divided over ranks",
                      config.Where("type"), entry.name, entry.type);
  }
  if (common.learning_rate_factor == 0) Freeze(*entry.layer);
  for (Parameter* p : entry.layer->parameters()) {
    if (config.Has("learning-rate-factor")) p->learning_rate_factor *= static_cast<float>(common.learning_rate_factor);
    p->decay_factor *= static_cast<float>(common.weight_decay_factor);
    if (config.Has("max-change")) p->max_change = static_cast<float>(common.max_change);
    p->name = entry.name + "." + p->name;
  }
  for (Parameter* p : entry.layer->buffers()) p->name = entry.name + "." + p->name;
  out_dim_ = entry.layer->whole_out_dim();
  layers_.push_back(std::move(entry));
}

void Network::Finish() {
  parameters_.clear();
  buffers_.clear();
  // "r.affine1.weight" may stand inside a layer "r", or in one called "r.affine1"; a model file has one tensor for it.
  std::map<std::string_view, const Entry*> owners;
  for (const Entry& entry : layers_) {
    const auto list = [&](std::span<Parameter* const> from, std::vector<Parameter*>& to) {
      for (Parameter* p : from) {
        const auto [owner, fresh] = owners.try_emplace(p->name, &entry);
        if (!fresh) {
          Throw<UsageError>("{}: layers '{}' and '{}' would both have a '{}': give one of them another name",
                            entry.where, owner->second->name, entry.name, p->name);
        }
        to.push_back(p);
      }
    };
    list(entry.layer->parameters(), parameters_);
    list(entry.layer->buffers(), buffers_);
  }
  if (storage_ == ValueStorage::kOwn) MoveValuesTogether();
  SetContextAbove({});
  for (size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = *layers_[i].layer;
    const Activation above = i + 1 < layers_.size() ? layers_[i + 1].layer->properties().activation : Activation::kNone;
    Activation* const place = layer.absorbed_activation();
    if (place != nullptr) *place = above;
    if (i == 0) layers_[i].absorbed = false;
    if (i + 1 < layers_.size()) layers_[i + 1].absorbed = place != nullptr && above != Activation::kNone;
    if (ShiftedBlocks* const blocks = layer.input_blocks()) {
      *blocks = i > 0 ? layers_[i - 1].layer->properties().output_blocks : ShiftedBlocks{};
    }
  }
}

void Network::MoveValuesTogether() {
  int64_t size = 0;
  for (const Parameter* p : parameters_) size += RoundUp(p->value.size());
  Matrix arena(1, size);
  int64_t offset = 0;
  for (Parameter* p : parameters_) {
    p->MoveTo(arena.data() + offset, offset);
    offset += RoundUp(p->value.size());
  }
  arena_ = std::move(arena);
}

void Network::SetContextAbove(const TimeContext& above) {
  TimeContext all_above = above;
  context_ = {};
  for (size_t i = layers_.size(); i-- > 0;) {
    layers_[i].layer->SetContextAbove(all_above);
    all_above = Compose(layers_[i].layer->time_context(), all_above);
    context_ = Compose(layers_[i].layer->time_context(), context_);
  }
}

void Network::AfterSteps(int64_t first, int64_t count) {
  for (Entry& e : layers_) {
    if (Constrained* const constraint = e.layer->constraint()) constraint->AfterSteps(first, count);
  }
}

bool Network::recurrent() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Entry& e) { return e.layer->recurrent(); });
}

Network Network::Clone() const {
  Network copy(Config::Parse(ToToml(), "network"), in_dim_, out_dim_, 0, InitialValues::kToBeSet, held_);
  copy.CopyFrom(*this);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    copy.parameters_[i]->learning_rate_factor = parameters_[i]->learning_rate_factor;
    copy.parameters_[i]->max_change = parameters_[i]->max_change;
  }
  return copy;
}

std::span<float> Network::values(LayerRange range) {
  const auto begin_of = [&](size_t layer) {
    for (size_t i = layer; i < layers_.size(); ++i) {
      const auto parameters = layers_[i].layer->parameters();
      if (!parameters.empty()) return static_cast<size_t>(parameters.front()->offset);
    }
    return num_values();
  };
  const size_t begin = begin_of(range.first);
  return values().subspan(begin, begin_of(range.last) - begin);
}

int64_t Network::num_parameters() const {
  int64_t n = 0;
  for (const Parameter* p : parameters_) n += p->value.size();
  return n;
}

int64_t Network::num_whole_parameters() const {
  int64_t n = 0;
  for (const Parameter* p : parameters_) n += p->whole.size();
  return n;
}

void Network::MarkChanged() {
  for (Parameter* p : parameters_) p->MarkChanged();
}

void Network::CopyFrom(const Network& other) {
  CHECK_EQ(parameters_.size(), other.parameters_.size());
  CHECK_EQ(buffers_.size(), other.buffers_.size());
  CHECK_EQ(num_values(), other.num_values());
  if (num_values() > 0) std::copy_n(other.arena_.data(), num_values(), arena_.data());
  for (size_t i = 0; i < buffers_.size(); ++i) {
    CHECK_EQ(buffers_[i]->value.size(), other.buffers_[i]->value.size());
    std::copy_n(other.buffers_[i]->value.data(), buffers_[i]->value.size(), buffers_[i]->value.data());
    buffers_[i]->MarkChanged();
  }
  MarkChanged();
}

uint64_t Network::Hash() const {
  uint64_t hash = Checksum(std::as_bytes(values()));
  for (const Parameter* p : buffers_) {
    hash = MixSeed(hash, Checksum(std::as_bytes(std::span(p->value.data(), static_cast<size_t>(p->value.size())))));
  }
  return hash;
}

bool Network::has_statistics() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Entry& e) { return e.layer->has_statistics(); });
}

void Network::RecomputeStatistics(const ExecContext& ctx, const std::function<NetworkInput()>& batches, Workspace& ws) {
  if (!has_statistics()) return;
  ExecContext training = ctx;
  training.training = true;
  training.dropout_factor = 0;
  ResetStatistics();
  for (NetworkInput input = batches(); !input.x.empty(); input = batches()) {
    training.sequences = input.sequences;
    Forward(training, input.x, ws);
    AccumulateStatistics(ws);
  }
}

void Network::ResetStatistics() {
  for (Entry& e : layers_) {
    if (HasStatistics* const statistics = e.layer->statistics()) statistics->ResetStatistics();
  }
}

void Network::AccumulateStatistics(Workspace& ws) {
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (HasStatistics* const statistics = layers_[i].layer->statistics()) statistics->AccumulateStatistics(ws.Child(i));
  }
}

void Network::ListStatistics(std::vector<Parameter*>& list) {
  for (Entry& e : layers_) {
    if (HasStatistics* const statistics = e.layer->statistics()) statistics->ListStatistics(list);
  }
}

void Network::ListStillUnits(std::vector<StillInputs>& list) const {
  Activation below = Activation::kNone;
  for (const Entry& e : layers_) {
    HasStatistics* const statistics = e.layer->statistics();
    const bool of_inputs = TraitsOf(e.type).batch_statistics;  // not of layers inside
    if (statistics != nullptr && (!of_inputs || below == Activation::kRelu)) statistics->ListStillInputs(list);
    below = e.layer->properties().activation;
  }
}

void Network::FreezeStatistics() {
  for (Entry& e : layers_) Freeze(*e.layer);
}

void Network::Truncate(size_t first) {
  CHECK_LE(first, layers_.size());
  CHECK(held_.empty());
  layers_.erase(layers_.begin() + static_cast<std::ptrdiff_t>(first), layers_.end());
  out_dim_ = layers_.empty() ? in_dim_ : layers_.back().layer->whole_out_dim();
  Finish();
}

void Network::Append(const Config& layer_config, int default_out_dim, uint64_t seed) {
  CHECK(held_.empty());
  Names names;
  for (const Entry& e : layers_) names.Take(e.name);
  AddLayer(layer_config, default_out_dim, seed, InitialValues::kRandom, names);
  Finish();
}

std::string Network::ToToml() const {
  std::string toml;
  for (const Entry& e : layers_) {
    Config table = e.layer->ToConfig();
    table.Set("type", TomlString(e.type));
    table.Set("name", TomlString(e.name));
    for (const std::string& key : e.common.Keys()) table.Set(key, fmt::format("{}", *e.common.Real(key)));
    toml += "[[layer]]\n" + table.ToToml() + "\n";
  }
  return toml;
}

}  // namespace antiphon::nn
