// Every registered adaptation method: a prepared model says the same as before, only what is to learn learns, what it
// makes loads and trains on, and what is nonsense is refused with the model unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "../compress/small_model.h"
#include "adapt/method.h"
#include "adapt/restore.h"
#include "adapt/side_task.h"
#include "base/error.h"
#include "nn/loss.h"
#include "nn/network_parts.h"
#include "nn/side_targets.h"
#include "optim/optimizer.h"
#include "temporary_folder.h"

namespace antiphon::adapt {
namespace {

using compress::kInputs;
using compress::kPdfs;
using compress::LargestDifference;
using compress::Output;
using compress::RandomMatrix;
using compress::SmallModel;

using LayerNames = std::set<std::string>;

struct Keys {
  std::string text;
  LayerNames learning;  // layers whose values training changes
};

struct Sample {
  std::vector<Keys> keys;             // to be tried; with them outputs stay as they are until training
  std::vector<std::string> nonsense;  // to be refused
  bool needs_new = false;             // speech
  bool needs_old = false;
};

const LayerNames& WholeModel() {
  static const LayerNames names = {"affine1", "batch-norm1", "affine2", "batch-norm2", "affine3"};
  return names;
}

// A new method adds its line here.
const std::map<std::string, Sample>& Samples() {
  static const std::map<std::string, Sample> samples = {
      {"transfer",
       {{{"", WholeModel()},
         {"train = 'top'\nlayers = 1", {"affine3"}},
         {"train = 'bottom'\nlayers = 2", {"affine1", "batch-norm1", "affine2", "batch-norm2"}},
         {"rate-below = 0.5", WholeModel()},
         {"rates = ['affine1 = 0', 'affine2 = 2']", {"affine2", "batch-norm2", "affine3"}}},
        {"train = 'middle'", "train = 'top'\nlayers = 7", "layers = 0", "new-output = true\ntrain = 'bottom'",
         "rates = ['affine1 = 0', 'affine2 = 0', 'affine3 = 0']", "train = 'top'\nrates = ['affine1 = 1']"}}},
      {"kld",
       {{{"", {"affine1", "affine2", "affine3"}},
         {"rho = [0.0]", {"affine1", "affine2", "affine3"}},
         {"rho = [1.0]\ntrain = 'top'\nlayers = 2", {"affine2", "affine3"}}},
        {"rho = [1.5]", "rho = [-0.1]", "rho = []"}}},
      {"lhuc", {{{"", {"lhuc1", "lhuc2"}}, {"rate = 2.0", {"lhuc1", "lhuc2"}}}, {"layers = ['nobody']", "rate = 0.0"}}},
      {"lin", {{{"", {"lin1"}}, {"rate = 2.0", {"lin1"}}}, {"rate = 0.0"}}},
      {"lhn", {{{"", {"lhn1"}}, {"rate = 2.0", {"lhn1"}}}, {"layer = 'nobody'", "rate = 0.0"}}},
      {"fmllr",
       {{{"min-frames = 100\nmin-state-frames = 2", {}}}, {"min-frames = 100000", "min-state-frames = 1"}, true, true}},
      {"mix",
       {{{"", WholeModel()}, {"schedule = 'tail'\ntail = 0.2", WholeModel()}, {"repeat = 3", WholeModel()}},
        {"schedule = 'head'", "tail = 0.0", "repeat = 0"},
        true,
        true}},
      {"adversarial", {{{"", WholeModel()}}, {"train = 'middle'"}, false, true}},
  };
  return samples;
}

// Utterances of noise whose pdf-ids say something of the features.
class NoisySpeech : public AlignedSpeech {
 public:
  explicit NoisySpeech(uint64_t seed) : features_(RandomMatrix(400, kInputs, seed)) {
    for (int64_t n = 0; n < features_.rows(); ++n) {
      pdf_ids_.push_back(static_cast<int32_t>(n * 5 % kPdfs));
      features_(n, 0) += 0.3f * static_cast<float>(pdf_ids_.back());
    }
  }
  void Rewind() override { next_ = 0; }
  std::optional<AlignedUtterance> Next() override {
    if (next_ == 4) return std::nullopt;
    const int64_t first = 100 * next_++;
    return AlignedUtterance{ConstMatrixView(features_).Rows(first, 100),
                            std::span<const int32_t>(pdf_ids_).subspan(static_cast<size_t>(first), 100)};
  }

 private:
  Matrix features_;
  std::vector<int32_t> pdf_ids_;
  int64_t next_ = 0;
};

Preparation Prepare(const std::string& name, const std::string& keys, nn::Model& model, bool with_new = true,
                    bool with_old = true) {
  const auto method = MethodRegistry::Get().Create(name, Config::Parse(keys, name));
  NoisySpeech new_speech(31), old_speech(32);
  MethodInput input{kPdfs, "", &new_speech, &old_speech, 1};
  if (!with_new) input.new_speech = nullptr;
  if (!with_old) input.old_speech = nullptr;
  return method->Prepare(model, input);
}

std::map<std::string, Matrix> Values(const nn::Network& network) {
  std::map<std::string, Matrix> values;
  for (const auto ps : {network.parameters(), network.buffers()}) {
    for (const nn::Parameter* p : ps) values.emplace(p->name, Matrix(ConstMatrixView(p->value)));
  }
  return values;
}

// Steps on noise, side tasks too; returns the layers with values that changed, statistics too.
LayerNames ChangedByTraining(nn::Model& model) {
  const auto before = Values(model.network);
  const auto optimizer = optim::MakeOptimizer(Config::Parse("type = \"sgd\"\n", "optimizer"), model.network);
  const Matrix x = RandomMatrix(64, kInputs, 21);
  std::vector<int32_t> ids, domains;
  for (int32_t n = 0; n < 64; ++n) {
    ids.push_back(n * 7 % kPdfs);
    domains.push_back(n % 2);
  }
  nn::SideTargets side{{{"domain", domains}}};
  nn::Workspace ws;
  for (int step = 0; step < 20; ++step) {
    const nn::ExecContext context{
        .training = true, .step = step, .dropout_factor = 0, .progress = 0.5, .side_targets = &side};
    const MatrixView z = model.network.Forward(context, x, ws);
    nn::SoftmaxCrossEntropy(z, {.pdf_ids = ids}, z);
    optimizer->BeginStep(0.05);
    model.network.Backward(context, z, ws, *optimizer);
    optimizer->EndStep();
  }
  LayerNames changed;
  for (const auto& [name, value] : Values(model.network)) {
    if (LargestDifference(value, before.at(name)) > 0) changed.insert(name.substr(0, name.find('.')));
  }
  return changed;
}

std::set<std::string> Learning(const nn::Network& network) {
  std::set<std::string> names;
  for (const nn::Parameter* p : network.parameters()) {
    if (p->learning_rate_factor != 0) names.insert(p->name);
  }
  return names;
}

TEST(AdaptationMethods, AllHaveASampleHere) {
  for (const std::string& name : MethodRegistry::Get().Names()) {
    EXPECT_TRUE(Samples().contains(name)) << "add keys for '" << name << "' to Samples()";
  }
}

TEST(AdaptationMethods, APreparedModelSaysTheSameAsBefore) {
  for (const auto& [name, sample] : Samples()) {
    for (const auto& [keys, learning] : sample.keys) {
      nn::Model model = SmallModel();
      const Matrix x = RandomMatrix(50, kInputs, 3);
      const Matrix before = Output(model.network, x);
      const Preparation preparation = Prepare(name, keys, model);
      EXPECT_FALSE(preparation.changes.empty()) << name;
      EXPECT_FALSE(preparation.original_shares.empty()) << name;
      if (preparation.trains) {
        EXPECT_EQ(LargestDifference(Output(model.network, x), before), 0) << name << " {" << keys << "}";
      }
      model.Validate();
    }
  }
}

TEST(AdaptationMethods, OnlyWhatIsToLearnChangesAndEverythingMayLearnAfterwards) {
  for (const auto& [name, sample] : Samples()) {
    for (const auto& [keys, learning] : sample.keys) {
      const std::string what = name + " {" + keys + "}";
      const nn::Model original = SmallModel();
      nn::Model model = original.Clone();
      if (!Prepare(name, keys, model).trains) continue;
      EXPECT_FALSE(learning.empty()) << what;
      EXPECT_EQ(ChangedByTraining(model), learning) << what;
      const Matrix x = RandomMatrix(50, kInputs, 3);
      const Matrix trained = Output(model.network, x);
      Restore(model, original);
      EXPECT_EQ(LargestDifference(Output(model.network, x), trained), 0) << what;
      for (const nn::Parameter* p : original.network.parameters()) {
        EXPECT_TRUE(Learning(model.network).contains(p->name)) << what << ": " << p->name;
      }
      EXPECT_EQ(model.network.has_statistics(), original.network.has_statistics()) << what;
    }
  }
}

TEST(AdaptationMethods, ModelsLoadAsTheyWereSaved) {
  const testing::TemporaryFolder folder;
  for (const auto& [name, sample] : Samples()) {
    nn::Model model = SmallModel();
    Prepare(name, sample.keys[0].text, model);
    model.Save(folder / "m.safetensors");
    const nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
    EXPECT_EQ(loaded.network.Hash(), model.network.Hash()) << name;
    EXPECT_EQ(loaded.network.ToToml(), model.network.ToToml()) << name;
  }
}

TEST(AdaptationMethods, AreDeterministic) {
  for (const auto& [name, sample] : Samples()) {
    nn::Model a = SmallModel(), b = SmallModel();
    Prepare(name, sample.keys[0].text, a);
    Prepare(name, sample.keys[0].text, b);
    EXPECT_EQ(a.network.Hash(), b.network.Hash()) << name;
  }
}

TEST(AdaptationMethods, RefuseNonsenseAndLeaveTheModelAlone) {
  for (const auto& [name, sample] : Samples()) {
    for (const std::string& keys : sample.nonsense) {
      nn::Model model = SmallModel();
      const std::string before = model.network.ToToml();
      const uint64_t hash = model.network.Hash();
      EXPECT_THROW(Prepare(name, keys, model), Error) << name << " {" << keys << "}";
      EXPECT_EQ(model.network.Hash(), hash) << name;
      EXPECT_EQ(model.network.ToToml(), before) << name;
    }
    EXPECT_THROW(MethodRegistry::Get().Create(name, Config::Parse("no-such-key = 1", name)), UsageError) << name;
  }
}

std::vector<std::string> Names(const nn::Network& network) {
  std::vector<std::string> names;
  for (size_t i = 0; i < network.num_layers(); ++i) names.push_back(network.layer_name(i));
  return names;
}

TEST(AdaptationMethods, LeaveNamesWithQuotesAlone) {
  const testing::TemporaryFolder folder;
  const nn::Model original = compress::ModelOf(
      "{type = 'affine', name = \"it's\", dim = 32}, {type = 'relu', name = \"o'clock\"}, {type = 'tdnn-f', name = "
      "\"'quoted'\", dim = 32, bottleneck = 8, time-stride = 0}, {type = 'relu'}, {type = 'affine', name = '\"out\" "
      "\\'}");
  for (const auto& [name, sample] : Samples()) {
    nn::Model model = original.Clone();
    Prepare(name, sample.keys[0].text, model);
    Restore(model, original);
    EXPECT_THAT(Names(model.network), ::testing::IsSupersetOf(Names(original.network))) << name;
    const Matrix x = RandomMatrix(50, kInputs, 3);
    const Matrix before = Output(model.network, x);
    SideTaskOptions side;
    side.task = "domain";
    side.after = "o'clock";
    EXPECT_EQ(SideTaskPlace(model.network, side), "o'clock") << name;
    model.network = InsertSideTask(model.network, side, 2, 1);
    model.Save(folder / "m.safetensors");
    nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
    EXPECT_EQ(Names(loaded.network), Names(model.network)) << name;
    RemoveSideTasks(loaded.network);
    EXPECT_EQ(LargestDifference(Output(loaded.network, x), before), 0) << name;
  }
}

// The message of the UsageError that preparing throws, which leaves the model alone; empty if there is none.
std::string Refusal(const std::string& name, const std::string& keys, nn::Model& model, bool with_new = true,
                    bool with_old = true) {
  const uint64_t hash = model.network.Hash();
  const std::string before = model.network.ToToml();
  try {
    Prepare(name, keys, model, with_new, with_old);
  } catch (const UsageError& e) {
    EXPECT_EQ(model.network.Hash(), hash) << name;
    EXPECT_EQ(model.network.ToToml(), before) << name;
    return e.what();
  }
  return "";
}

TEST(AdaptationMethods, SayWhatSpeechTheyNeed) {
  for (const auto& [name, sample] : Samples()) {
    const auto method = MethodRegistry::Get().Create(name, Config::Parse(sample.keys[0].text, name));
    EXPECT_EQ(method->needs_old_speech(), sample.needs_old) << name;
    for (const auto& [with_new, with_old] : {std::pair(true, false), {false, true}, {false, false}}) {
      nn::Model model = SmallModel();
      const std::string message = Refusal(name, sample.keys[0].text, model, with_new, with_old);
      const bool refused = (sample.needs_new && !with_new) || (sample.needs_old && !with_old);
      const std::string what = name + (with_new ? " with new speech" : "") + (with_old ? " with old speech" : "");
      EXPECT_EQ(!message.empty(), refused) << what << ": " << message;
      if (!refused) continue;
      EXPECT_NE(message.find("'" + name + "' needs"), std::string::npos) << what << ": " << message;
    }
  }
}

std::map<std::string, double> RateFactors(const std::string& keys) {
  nn::Model model = SmallModel();
  Prepare("transfer", keys, model);
  std::map<std::string, double> factors;
  for (const nn::Parameter* p : model.network.parameters()) factors[p->name] = p->learning_rate_factor;
  return factors;
}

TEST(LayerRates, FallFromTheTopDownByOneFactor) {
  for (const double below : {0.5, 2.0}) {
    const auto factors = RateFactors(fmt::format("rate-below = {}", below));
    EXPECT_EQ(factors.at("affine3.weight"), 1) << below;
    EXPECT_EQ(factors.at("affine2.weight"), below);
    EXPECT_EQ(factors.at("affine1.weight"), below * below);
    EXPECT_EQ(factors.at("affine1.bias"), below * below);
  }
  const auto lower = RateFactors("train = 'bottom'\nlayers = 2\nrate-below = 0.5");
  EXPECT_EQ(lower.at("affine3.weight"), 0);
  EXPECT_EQ(lower.at("affine2.weight"), 1);
  EXPECT_EQ(lower.at("affine1.weight"), 0.5);
}

TEST(LayerRates, MayBeGivenToEachLayer) {
  const auto factors = RateFactors("rates = ['affine1=0.1', 'affine3 = 0']");
  EXPECT_FLOAT_EQ(static_cast<float>(factors.at("affine1.weight")), 0.1f);
  EXPECT_FLOAT_EQ(static_cast<float>(factors.at("affine1.bias")), 0.1f);
  EXPECT_EQ(factors.at("affine2.weight"), 1);
  EXPECT_EQ(factors.at("affine3.weight"), 0);
  EXPECT_EQ(RateFactors(R"(rates = ["\taffine1 \t=\t0.5 \f\r"])").at("affine1.weight"), 0.5);
  const auto both = RateFactors("rate-below = 0.5\nrates = ['affine1 = 8', 'affine2 = 1']");
  EXPECT_EQ(both.at("affine1.weight"), 2);
  EXPECT_EQ(both.at("affine2.weight"), 0.5);
  EXPECT_EQ(both.at("affine3.weight"), 1);
  nn::Model model = SmallModel();
  EXPECT_EQ(Prepare("kld", "rates = ['affine1 = 0.25']", model).changes.back().what, "its own learning rate × 0.25");
}

TEST(LayerRates, StopABatchNormalisationAtNought) {
  nn::Model model = SmallModel();
  Prepare("transfer", "rates = ['batch-norm1 = 0']", model);
  const LayerNames changed = ChangedByTraining(model);
  EXPECT_FALSE(changed.contains("batch-norm1"));
  EXPECT_TRUE(changed.contains("batch-norm2"));
}

TEST(LayerRates, RefuseLayersThatThereAreNotAndWhatIsNoFactor) {
  const std::pair<const char*, const char*> cases[] = {{"afine1 = 0.1", "did you mean 'affine1'?"},
                                                       {"relu1 = 0.1", "unknown layer with a learning rate 'relu1'"},
                                                       {"", "unknown layer"},
                                                       {"affine1 = -0.1", "'-0.1' for layer 'affine1' is no factor"},
                                                       {"affine1 = fast", "'fast' for layer"},
                                                       {"affine1 = 0.1x", "'0.1x' for layer"},
                                                       {"affine1", "'' for layer"},
                                                       {"affine1 =", "'' for layer"},
                                                       {"affine1 = nan", "'nan' for layer"},
                                                       {"affine1 = inf", "'inf' for layer"},
                                                       {"= 0.1", "unknown layer"},
                                                       {"affine1 = 1e9", "from 0 to 10000"}};
  for (const auto& [rate, expected] : cases) {
    nn::Model model = SmallModel();
    const std::string message = Refusal("transfer", fmt::format("rates = ['{}']", rate), model);
    EXPECT_NE(message.find(expected), std::string::npos) << "'" << rate << "': " << message;
    for (const char* layer : {"affine1, ", "batch-norm1, ", "affine2, ", "affine3"}) {
      EXPECT_NE(message.find(layer), std::string::npos) << "'" << rate << "': " << message;
    }
  }
  nn::Model model = SmallModel();
  EXPECT_NE(Refusal("transfer", "rates = ['affine1=1', 'affine1 = 2']", model).find("named twice"), std::string::npos);
}

TEST(HiddenLayers, ThatThereAreNotAreAskedForByTheOptionOfTheMethod) {
  const std::pair<const char*, const char*> cases[] = {
      {"adversarial", "`after`"}, {"lhn", "`layer`"}, {"lhuc", "`layers`"}};
  for (const auto& [name, key] : cases) {
    nn::Model model = SmallModel();
    model.network =
        nn::Network(Config::Parse("layer = [{type = 'affine', dim = 8}, {type = 'affine'}]", "net"), kInputs, kPdfs, 5);
    const std::string message = Refusal(name, "", model);
    EXPECT_NE(message.find(std::string("name a layer with ") + key + ", of affine1"), std::string::npos)
        << name << ": " << message;
  }
}

}  // namespace
}  // namespace antiphon::adapt
