// Every registered adaptation method: a prepared model says the same as before, only what is to learn learns, what it
// makes loads and trains on, and what is nonsense is refused with the model unchanged.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "../compress/small_model.h"
#include "adapt/method.h"
#include "adapt/restore.h"
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

struct Sample {
  std::vector<std::string> keys;      // to be tried; with them outputs stay as they are until training
  std::vector<std::string> nonsense;  // to be refused
};

// A new method adds its line here.
const std::map<std::string, Sample>& Samples() {
  static const std::map<std::string, Sample> samples = {
      {"transfer",
       {{"", "train = 'top'\nlayers = 1", "train = 'bottom'\nlayers = 2", "rate-below = 0.5"},
        {"train = 'middle'", "train = 'top'\nlayers = 7", "layers = 0", "new-output = true\ntrain = 'bottom'"}}},
      {"kld",
       {{"", "rho = [0.0]", "rho = [1.0]\ntrain = 'top'\nlayers = 2"}, {"rho = [1.5]", "rho = [-0.1]", "rho = []"}}},
      {"lhuc", {{"", "rate = 2.0"}, {"layers = ['nobody']", "rate = 0.0"}}},
      {"lin", {{"", "rate = 2.0"}, {"rate = 0.0"}}},
      {"lhn", {{"", "rate = 2.0"}, {"layer = 'nobody'", "rate = 0.0"}}},
      {"fmllr", {{"min-frames = 100\nmin-state-frames = 2"}, {"min-frames = 100000", "min-state-frames = 1"}}},
      {"mix", {{"", "schedule = 'tail'\ntail = 0.2", "repeat = 3"}, {"schedule = 'head'", "tail = 0.0", "repeat = 0"}}},
      {"adversarial", {{""}, {"train = 'middle'"}}},
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

Preparation Prepare(const std::string& name, const std::string& keys, nn::Model& model, bool speech = true) {
  const auto method = MethodRegistry::Get().Create(name, Config::Parse(keys, name));
  NoisySpeech new_speech(31), old_speech(32);
  MethodInput input{kPdfs, "", &new_speech, &old_speech, 1};
  if (!speech) input.new_speech = input.old_speech = nullptr;
  return method->Prepare(model, input);
}

std::map<std::string, Matrix> Values(const nn::Network& network) {
  std::map<std::string, Matrix> values;
  for (const auto ps : {network.parameters(), network.buffers()}) {
    for (const nn::Parameter* p : ps) values.emplace(p->name, Matrix(ConstMatrixView(p->value)));
  }
  return values;
}

// Steps on noise, side tasks too; returns the names of what changed.
std::set<std::string> ChangedByTraining(nn::Model& model) {
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
  std::set<std::string> changed;
  for (const auto& [name, value] : Values(model.network)) {
    if (LargestDifference(value, before.at(name)) > 0) changed.insert(name);
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
    for (const std::string& keys : sample.keys) {
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
    for (const std::string& keys : sample.keys) {
      const std::string what = name + " {" + keys + "}";
      const nn::Model original = SmallModel();
      nn::Model model = original.Clone();
      if (!Prepare(name, keys, model).trains) continue;
      const std::set<std::string> learning = Learning(model.network);
      EXPECT_FALSE(learning.empty()) << what;
      for (const std::string& changed : ChangedByTraining(model)) {
        EXPECT_TRUE(learning.contains(changed) || changed.ends_with(".statistics")) << what << ": " << changed;
      }
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
    Prepare(name, sample.keys[0], model);
    model.Save(folder / "m.safetensors");
    const nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
    EXPECT_EQ(loaded.network.Hash(), model.network.Hash()) << name;
    EXPECT_EQ(loaded.network.ToToml(), model.network.ToToml()) << name;
  }
}

TEST(AdaptationMethods, AreDeterministic) {
  for (const auto& [name, sample] : Samples()) {
    nn::Model a = SmallModel(), b = SmallModel();
    Prepare(name, sample.keys[0], a);
    Prepare(name, sample.keys[0], b);
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

TEST(AdaptationMethods, SayWhatSpeechTheyNeed) {
  for (const auto& [name, sample] : Samples()) {
    nn::Model model = SmallModel();
    const uint64_t hash = model.network.Hash();
    try {
      Prepare(name, sample.keys[0], model, false);
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
      EXPECT_EQ(model.network.Hash(), hash) << name;
    }
  }
}

}  // namespace
}  // namespace antiphon::adapt
