// Student: a new, smaller network in place of the trained one, which teaches it in retraining (--distill).
//
//   width        the same layers, each with this share of its width (compress/narrow.h): for every kind of network; of
//                an ensemble those of its first member
//   layers, dim  otherwise: as many hidden affine layers, the same layers behind each as the old network has above its
//                first affine one (activation, normalisation, dropout). Only for networks of such layers: layers that
//                look at other frames, convolutions and shortcuts are refused, not replaced
// What stands below the first layer with weights (normalisation of the features) and the output layer's number of
// classes and heads are kept. `low-rank` puts a linear layer below the output. Weights are drawn, so that nothing is
// known before retraining. Source: Li, Zhao, Huang, Gong, Learning small-size DNN with output-distribution-based
// criteria, Interspeech 2014; algorithms reference 2.5.
#include <algorithm>

#include "base/error.h"
#include "base/options.h"
#include "base/toml_text.h"
#include "compress/method.h"
#include "compress/narrow.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct StudentOptions {
  int layers = 3;
  int dim = 128;
  double width = 0;
  int low_rank = 0;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, Range{1, 100}, "hidden affine layers");
    v("dim", dim, Range{1, 1 << 20}, "outputs of each");
    v("width", width, Range{0, 1},
      "the network's own layers (of an ensemble those of its first member), each with this share of its width; 0: by "
      "layers and dim");
    v("low-rank", low_rank, Range{0, 1 << 20}, "outputs of a linear layer below the output layer; 0: none");
  }
};

bool HasWeights(const LayerParts& layer) { return layer.tensors.contains("weight"); }

// Computes a frame from the same frame below, with one matrix.
bool IsAffine(const LayerParts& layer) { return TraitsOf(layer).product != nn::LayerTraits::Product::kNone; }

// Affine layers would be no student of these, but another kind of network.
void RequireAffineLayers(const nn::Network& network, const std::vector<LayerParts>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const nn::Layer& layer = network.layer(i);
    const bool one_frame = layer.time_context().one_to_one() && !layer.recurrent();
    if (one_frame && !parts[i].config.Has("layers") && (!HasWeights(parts[i]) || IsAffine(parts[i]))) continue;
    Throw<UsageError>(
        "method 'student': layer '{}' is '{}', and student.layers and student.dim describe hidden affine layers, which "
        "do not do the same. For a student of the network's own layers, half as wide: student.width=0.5. For one of "
        "your own design: antiphon targets, then antiphon train with teacher.targets",
        parts[i].name, parts[i].type);
  }
}

class Student : public Method {
 public:
  explicit Student(const StudentOptions& options) : options_(options) {}

  Changes Apply(nn::Model& model, const MethodInput& input) const override {
    const nn::Network like = nn::FirstMemberOf(model.network);
    const std::vector<LayerParts> old = TakeApart(like);
    size_t kept = 0;
    std::vector<Config> tables = options_.width > 0 ? SameLayers(like, old, &kept) : AffineLayers(like, old, &kept);
    if (options_.low_rank > 0) tables.insert(OutputLayer(tables), AffineTable("linear", options_.low_rank));
    std::string toml;
    for (const Config& table : tables) toml += "[[layer]]\n" + table.ToToml() + "\n";
    const int in = model.network.in_dim();
    nn::Network network = WithContext(
        [&] { return nn::Network(Config::Parse(toml, "student"), in, model.network.out_dim(), input.seed); },
        [&] { return std::string("method 'student'"); });
    std::vector<LayerParts> parts = TakeApart(network);
    for (size_t i = 0; i < kept; ++i) parts[i].tensors = old[i].tensors;
    network = PutTogether(parts, in);
    const Changes changes = options_.width > 0 ? Narrowings(model.network, like, network) : Replacement(old);
    model.network = std::move(network);
    return changes;
  }

 private:
  std::vector<Config> SameLayers(const nn::Network& network, const std::vector<LayerParts>& old, size_t* kept) const {
    std::vector<Config> tables;
    for (const LayerParts& layer : old) tables.push_back(layer.config);
    const auto has_weights = [](const Config& layer) { return !WidthKey(layer).empty() || layer.Has("layers"); };
    *kept = static_cast<size_t>(std::ranges::find_if(tables, has_weights) - tables.begin());
    return WithContext([&] { return Narrower(tables, network.in_dim(), options_.width); },
                       [&] { return fmt::format("method 'student', width = {}", options_.width); });
  }

  std::vector<Config> AffineLayers(const nn::Network& network, const std::vector<LayerParts>& old, size_t* kept) const {
    RequireAffineLayers(network, old);
    const std::vector<size_t> trained = WithWeights(old);
    *kept = trained[0];
    std::vector<Config> tables;
    for (size_t i = 0; i < trained[0]; ++i) tables.push_back(old[i].config);
    for (int n = 0; n < options_.layers; ++n) {
      tables.push_back(AffineTable("affine", options_.dim));
      for (size_t i = trained[0] + 1; i < trained[1]; ++i) tables.push_back(WithoutName(network.layer(i), old[i]));
    }
    tables.push_back(AffineTable("affine", network.out_dim()));
    return tables;
  }

  // Indices of the layers that learn a matrix, the lowest and at least one more.
  static std::vector<size_t> WithWeights(const std::vector<LayerParts>& parts) {
    std::vector<size_t> found;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (HasWeights(parts[i]) && TraitsOf(parts[i]).product != nn::LayerTraits::Product::kFixed) found.push_back(i);
    }
    if (found.size() < 2) {
      throw InputError("method 'student': the network has no hidden affine layer that a student could have too");
    }
    return found;
  }

  static std::vector<Config>::iterator OutputLayer(std::vector<Config>& tables) {
    const auto last =
        std::find_if(tables.rbegin(), tables.rend(), [](const Config& t) { return !WidthKey(t).empty(); });
    return last == tables.rend() ? tables.end() : std::prev(last.base());
  }

  static Config AffineTable(const char* type, int dim) {
    return Config::Parse(fmt::format("type = \"{}\"\ndim = {}\n", type, dim), "student");
  }

  // Names come anew; a repeated one would not be unique.
  static Config WithoutName(const nn::Layer& layer, const LayerParts& parts) {
    Config config = layer.ToConfig();
    for (const char* key : {"learning-rate-factor", "weight-decay-factor", "max-change"}) {
      if (const auto value = parts.config.Real(key)) config.Set(key, fmt::format("{}", *value));
    }
    config.Set("type", TomlString(parts.type));
    return config;
  }

  Changes Replacement(const std::vector<LayerParts>& old) const {
    return {{"student", fmt::format("{} hidden layers of {} in place of {}", options_.layers, options_.dim,
                                    WithWeights(old).size() - 1)}};
  }

  // `old` is `whole`, or the first member of each ensemble in it.
  Changes Narrowings(const nn::Network& whole, const nn::Network& old, const nn::Network& student) const {
    const int64_t before = SizeOf(whole).parameters;
    const int64_t after = SizeOf(student).parameters;
    if (after >= before) {
      Throw<UsageError>(
          "method 'student': width = {} leaves {} parameters of {}: ask for a smaller student.width, or leave "
          "student.low-rank out",
          options_.width, after, before);
    }
    Changes changes = {{"student", fmt::format("{} parameters in place of {}", after, before)}};
    for (size_t i = 0; i < old.num_layers(); ++i) {
      for (size_t s = 0; s < student.num_layers(); ++s) {
        const int was = old.layer(i).out_dim(), is = student.layer(s).out_dim();
        if (student.layer_name(s) != old.layer_name(i) || was == is || !HasParameters(student, s)) continue;
        changes.push_back({old.layer_name(i), fmt::format("{} outputs in place of {}", is, was)});
      }
    }
    return changes;
  }

  // A parameter's name begins with its layer's.
  static bool HasParameters(const nn::Network& network, size_t i) {
    return std::ranges::any_of(
        network.parameters(), [&](const nn::Parameter* p) { return p->name.starts_with(network.layer_name(i) + "."); });
  }

  StudentOptions options_;
};

std::unique_ptr<Method> MakeStudent(const Config& config) {
  const auto options = ReadOptions<StudentOptions>(config);
  for (const char* key : {"layers", "dim"}) {
    if (options.width == 0 || !config.Has(key)) continue;
    Throw<UsageError>(
        "{}: student.{} describes new layers, and with student.width the network's own stay: leave out one "
        "of the two",
        config.Where(key), key);
  }
  return std::make_unique<Student>(options);
}

REGISTER_COMPONENT(MethodRegistry, "student", &MakeStudent);

}  // namespace
}  // namespace antiphon::compress
