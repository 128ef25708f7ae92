// Every registered method on networks that look at several frames: what it makes loads, gives finite scores and is
// smaller, or it refuses with an error that names the method and says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "compress/narrow.h"
#include "compress/network_parts.h"
#include "nn/loss.h"
#include "optim/optimizer.h"
#include "small_model.h"
#include "temporary_folder.h"

namespace antiphon::compress {
namespace {

using ::testing::HasSubstr;

struct Kind {
  std::string layers;
  // Methods that have nothing to do there, and a part of what they say.
  std::map<std::string, std::string> refusals;
};

constexpr char kNoHeads[] = "looks at other frames of the utterance";

// A new kind of layer that sees several frames adds a line here.
const std::map<std::string, Kind>& Kinds() {
  static const std::map<std::string, Kind> kinds = {
      {"tdnn",
       {"{type = 'normalize'}, {type = 'tdnn', dim = 32}, {type = 'relu'}, {type = 'batch-norm'}, {type = 'tdnn', dim "
        "= 32, offsets = [-3, 0, 3]}, {type = 'relu'}, {type = 'batch-norm'}, {type = 'affine', dim = 32}, {type = "
        "'relu'}, {type = 'affine'}",
        {{"multiframe", kNoHeads}}}},
      {"cnn",
       {"{type = 'convolution', filters = 16, offsets = [-1, 0, 1]}, {type = 'relu'}, {type = 'pooling', channels = "
        "16, window = 2}, {type = 'convolution', channels = 16, filters = 16}, {type = 'relu'}, {type = 'batch-norm'}, "
        "{type = 'tdnn', dim = 48}, {type = 'relu'}, {type = 'affine', dim = 48}, {type = 'relu'}, {type = 'affine'}",
        {{"multiframe", kNoHeads}}}},
      {"lstm",
       {"{type = 'lstm', dim = 32, projection = 16}, {type = 'lstm', dim = 32, projection = 16}, {type = 'affine'}",
        {{"multiframe", kNoHeads},
         {"svd", "makes no layer smaller"},
         {"prune-nodes", "no hidden nodes"},
         {"prune", "prune.layers=['affine1']"},
         {"binarize", "binarize.layers=['affine1']"},
         {"circulant", "circulant.layers=['affine1']"}}}},
      {"lstm between tdnn layers",
       {"{type = 'tdnn', dim = 48}, {type = 'relu'}, {type = 'lstm', dim = 32, projection = 16}, {type = 'tdnn', dim = "
        "48, offsets = [0, 3]}, {type = 'relu'}, {type = 'gru', dim = 32}, {type = 'affine'}",
        {{"multiframe", kNoHeads}, {"prune-nodes", "no hidden nodes"}}}},
      {"residual",
       {"{type = 'tdnn', dim = 32}, {type = 'relu'}, {type = 'batch-norm'}, {type = 'tdnn-f', dim = 32, bottleneck = "
        "16}, {type = 'residual', layers = [{type = 'gru', dim = 32}]}, {type = 'affine'}",
        {{"multiframe", kNoHeads}, {"prune-nodes", "no hidden nodes"}}}},
      {"bidirectional",
       {"{type = 'bidirectional', right = 3, layers = [{type = 'lstm', dim = 16, projection = 8}]}, {type = 'affine', "
        "dim = 48}, {type = 'relu'}, {type = 'affine', dim = 48}, {type = 'relu'}, {type = 'affine'}",
        {{"multiframe", kNoHeads}}}},
      {"ensemble",
       {"{type = 'normalize'}, {type = 'ensemble', members = [{layers = [{type = 'tdnn', dim = 32}, {type = 'relu'}, "
        "{type = 'affine', dim = 24}]}, {layers = [{type = 'gru', dim = 24}]}]}, {type = 'affine', dim = 32}, {type = "
        "'relu'}, {type = 'affine'}",
        {{"multiframe", kNoHeads},
         {"binarize", "the weights inside 'ensemble1' (ensemble) stay as they are"},
         {"circulant", "the weights inside 'ensemble1' (ensemble) stay as they are"}}}},
  };
  return kinds;
}

// What a person asks for; the defaults of most methods suit these small networks.
std::string Keys(const std::string& method) { return method == "student" ? "width = 0.5" : ""; }

std::string Refusal(const std::string& method, const std::string& keys, nn::Model& model) {
  FixedFrames frames(kInputs);
  const uint64_t hash = model.network.Hash();
  try {
    Apply(method, keys, model, &frames);
  } catch (const UsageError& e) {
    EXPECT_EQ(model.network.Hash(), hash) << method << " changed what it refused";
    return e.what();
  } catch (const InputError& e) {
    EXPECT_EQ(model.network.Hash(), hash) << method << " changed what it refused";
    return e.what();
  }
  return "";
}

bool IsFinite(const Matrix& m) {
  return std::all_of(m.data(), m.data() + m.size(), [](float v) { return std::isfinite(v); });
}

void ExpectLearns(nn::Model& model, const std::string& what) {
  const auto optimizer =
      optim::MakeOptimizer(Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "optimizer"), model.network);
  const Matrix x = RandomMatrix(64, kInputs, 21);
  nn::Workspace ws;
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    const nn::ExecContext context{.training = true, .step = step};
    const MatrixView z = model.network.Forward(context, x, ws);
    std::vector<int32_t> ids;
    for (int64_t n = 0; n < z.rows(); ++n) ids.push_back(static_cast<int32_t>(n * 7 % kPdfs));
    last = nn::SoftmaxCrossEntropy(z, {.pdf_ids = ids}, z).loss();
    if (step == 0) first = last;
    optimizer->BeginStep(0.1);
    model.network.Backward(context, z, ws, *optimizer);
    optimizer->EndStep();
  }
  EXPECT_LT(last, 0.99 * first) << what;
}

class MethodOnSequences : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& method() const { return std::get<0>(GetParam()); }
  const Kind& kind() const { return Kinds().at(std::get<1>(GetParam())); }
};

TEST_P(MethodOnSequences, MakesItSmallerOrSaysWhyNot) {
  nn::Model model = ModelOf(kind().layers);
  FixedFrames frames(kInputs);
  const Matrix before = Output(model.network, frames.first());
  const NetworkSize size = SizeOf(model.network);
  if (const auto refusal = kind().refusals.find(method()); refusal != kind().refusals.end()) {
    const std::string said = Refusal(method(), Keys(method()), model);
    EXPECT_THAT(said, HasSubstr("method '" + method() + "'"));
    EXPECT_THAT(said, HasSubstr(refusal->second));
    return;
  }
  const std::string network = model.network.ToToml();
  const Changes changes = Apply(method(), Keys(method()), model, &frames);
  EXPECT_FALSE(changes.empty());
  model.Validate();
  EXPECT_NE(model.network.ToToml(), network);
  const NetworkSize now = SizeOf(model.network);
  EXPECT_TRUE(now.bytes < size.bytes || now.parameters < size.parameters)
      << now.bytes << " bytes of " << size.bytes << ", " << now.parameters << " parameters of " << size.parameters;
  const Matrix after = Output(model.network, frames.first());
  EXPECT_EQ(after.rows(), before.rows()) << "it sees the same frames";
  EXPECT_TRUE(IsFinite(after));
  EXPECT_GT(LargestDifference(before, after), 0);
  const testing::TemporaryFolder folder;
  model.Save(folder / "m.safetensors");
  nn::Model loaded = nn::Model::Load(folder / "m.safetensors");
  EXPECT_EQ(LargestDifference(Output(loaded.network, frames.first()), after), 0);
  ExpectLearns(loaded, method());
}

INSTANTIATE_TEST_SUITE_P(All, MethodOnSequences,
                         ::testing::Combine(::testing::ValuesIn(MethodRegistry::Get().Names()), ::testing::ValuesIn([] {
                                              std::vector<std::string> names;
                                              for (const auto& [name, kind] : Kinds()) names.push_back(name);
                                              return names;
                                            }())),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param) + "_on_" + std::get<1>(test.param);
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

std::vector<std::string> TypesOf(const nn::Network& network) {
  std::vector<std::string> types;
  for (size_t i = 0; i < network.num_layers(); ++i) types.push_back(network.layer_type(i));
  return types;
}

TEST(Student, OfAWidthHasTheSameLayersAndSeesTheSameFrames) {
  for (const auto& [name, kind] : Kinds()) {
    if (name == "ensemble") continue;  // below
    nn::Model model = ModelOf(kind.layers);
    const auto types = TypesOf(model.network);
    const TimeContext context = model.network.time_context();
    Apply("student", "width = 0.5", model);
    EXPECT_EQ(TypesOf(model.network), types) << name;
    EXPECT_EQ(model.network.time_context().left, context.left) << name;
    EXPECT_EQ(model.network.time_context().right, context.right) << name;
    EXPECT_EQ(model.network.out_dim(), kPdfs);
  }
}

TEST(Student, OfAWidthNarrowsWhatMakesALayerWide) {
  nn::Model lstm = ModelOf(Kinds().at("lstm").layers);
  Apply("student", "width = 0.5", lstm);
  const auto parts = TakeApart(lstm.network);
  EXPECT_EQ(parts[0].config.Int("dim"), 16);
  EXPECT_EQ(parts[1].config.Int("projection"), 8);
  nn::Model cnn = ModelOf(Kinds().at("cnn").layers);
  Apply("student", "width = 0.5", cnn);
  EXPECT_EQ(TakeApart(cnn.network)[0].config.Int("filters"), 8);
  EXPECT_EQ(TakeApart(cnn.network)[2].config.Int("channels"), 8);
  EXPECT_EQ(TakeApart(cnn.network)[3].config.Int("channels"), 8);
  nn::Model residual = ModelOf(Kinds().at("residual").layers);
  Apply("student", "width = 0.5", residual);
  const std::vector<Config> inside = TakeApart(residual.network)[4].config.Tables("layers");
  EXPECT_EQ(inside[1].Int("dim"), 8) << "the bottleneck";
  EXPECT_EQ(inside[3].Int("dim"), 16) << "as wide as what the shortcut brings";
}

TEST(Student, OfAnEnsembleHasTheLayersOfItsFirstMember) {
  const std::string member =
      fmt::format("{{type = 'tdnn', dim = 36}}, {{type = 'relu'}}, {{type = 'affine', dim = {}}}", kPdfs);
  const std::string scaled = "{layers = [{type = 'batch-norm'}, " + member + "]}";
  nn::Model model = ModelOf("{type = 'ensemble', members = [" + scaled + ", {layers = [" + member + "]}]}");
  const nn::Model single = ModelOf("{type = 'batch-norm'}, " + member);
  const Matrix statistics = TakeApart(nn::FirstMemberOf(model.network))[0].tensors.at("statistics");
  nn::Model narrow = model.Clone();
  Apply("student", "width = 1.0", model);
  EXPECT_EQ(TypesOf(model.network), TypesOf(single.network));
  EXPECT_EQ(model.network.num_parameters(), single.network.num_parameters());
  EXPECT_EQ(LargestDifference(TakeApart(model.network)[0].tensors.at("statistics"), statistics), 0);
  Apply("student", "width = 0.5", narrow);
  EXPECT_EQ(TypesOf(narrow.network), TypesOf(single.network));
  EXPECT_LT(narrow.network.num_parameters(), single.network.num_parameters());
}

// A shortcut around the features cannot become narrower than they are.
TEST(Student, OfAWidthLeavesAShortcutAroundTheFeaturesAsWide) {
  nn::Model model = ModelOf(
      "{type = 'residual', layers = [{type = 'tdnn', dim = 64}, {type = 'relu'}, {type = 'affine', dim = 24}]}, "
      "{type = 'affine'}");
  Apply("student", "width = 0.25", model);
  EXPECT_EQ(model.network.layer(0).out_dim(), kInputs);
  EXPECT_EQ(TakeApart(model.network)[0].config.Tables("layers")[1].Int("dim"), 16);
  nn::Model filters = ModelOf(
      "{type = 'residual', layers = [{type = 'convolution', channels = 3, filters = 8}, {type = 'relu'}, {type = "
      "'convolution', channels = 8, filters = 3}]}, {type = 'affine'}");
  Apply("student", "width = 0.5", filters);
  const std::vector<Config> inside = TakeApart(filters.network)[0].config.Tables("layers");
  EXPECT_EQ(inside[0].Int("filters"), 4);
  EXPECT_EQ(inside[2].Int("channels"), 4);
  EXPECT_EQ(inside[2].Int("filters"), 3);
}

TEST(Student, OfAWidthKeepsWhatNormalisesTheFeatures) {
  nn::Model model = ModelOf("{type = 'batch-norm'}, {type = 'tdnn', dim = 32}, {type = 'relu'}, {type = 'affine'}");
  const Matrix statistics = TakeApart(model.network)[0].tensors.begin()->second;
  Apply("student", "width = 0.5\nlow-rank = 8", model);
  const auto parts = TakeApart(model.network);
  EXPECT_EQ(LargestDifference(parts[0].tensors.begin()->second, statistics), 0);
  EXPECT_EQ(parts[parts.size() - 2].type, "linear");
}

TEST(Student, OfAWidthIsANetworkOfPlainWeights) {
  nn::Model model = ModelOf(Kinds().at("tdnn").layers);
  FixedFrames frames(kInputs);
  Apply("quantize", "", model, &frames);
  Apply("student", "width = 0.5", model);
  for (const std::string& type : TypesOf(model.network)) EXPECT_NE(type, "quantized-affine");
}

TEST(Student, OfAffineLayersIsNoneOfOtherLayers) {
  for (const auto& [name, kind] : Kinds()) {
    nn::Model model = ModelOf(kind.layers);
    const std::string said = Refusal("student", "dim = 16", model);
    EXPECT_THAT(said, HasSubstr("method 'student': layer '")) << name;
    EXPECT_THAT(said, HasSubstr("student.width=0.5")) << name;
  }
  // One frame, but no affine layers.
  nn::Model filters = ModelOf("{type = 'convolution', filters = 4}, {type = 'relu'}, {type = 'affine'}");
  EXPECT_THAT(Refusal("student", "dim = 16", filters), HasSubstr("'convolution1' is 'convolution'"));
  EXPECT_THAT(Refusal("student", "dim = 16\nwidth = 0.5", filters), HasSubstr("leave out one"));
  EXPECT_THAT(Refusal("student", "width = 1.0", filters), HasSubstr("a smaller student.width"));
}

TEST(Svd, SaysSoIfItCannotMakeAnyLayerSmaller) {
  nn::Model model = SmallModel();
  EXPECT_THAT(Refusal("svd", "energy = 0.99999", model), HasSubstr("'affine2' kept: rank"));
}

TEST(PruneNodes, WarnsIfNoNodeGoes) {
  std::ostringstream said;
  log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(said)));
  nn::Model model = SmallModel();
  const uint64_t hash = model.network.Hash();
  const Changes changes = Apply("prune-nodes", "share = 0.2", model);
  EXPECT_EQ(model.network.Hash(), hash);
  EXPECT_THAT(said.str(), HasSubstr("method 'prune-nodes' changes nothing: 'affine1' keeps its 32"));
  EXPECT_THAT(changes[0].what, HasSubstr("kept: as many of its 32 nodes"));
  said.str("");
  Apply("prune-nodes", "share = 0.0", model);
  Apply("prune-nodes", "share = 0.3", model);
  EXPECT_EQ(said.str(), "");
  log::SetLogger(std::make_shared<spdlog::logger>("silent"));
}

TEST(Methods, SayWhatALayerIsThatTheyCannotTake) {
  for (const char* method : {"svd", "prune", "binarize", "circulant", "quantize"}) {
    nn::Model model = ModelOf(Kinds().at("lstm").layers);
    EXPECT_THAT(Refusal(method, "layers = ['lstm2']", model), HasSubstr("layer 'lstm2' is 'lstm'")) << method;
  }
}

// Layers that look at several frames see more of them than those above.
TEST(PruneNodes, FoldsTheMeanOfTheFramesThatALayerSees) {
  nn::Model model = ModelOf(
      "{type = 'tdnn', dim = 32, offsets = [-8, 8]}, {type = 'affine', dim = 32}, {type = 'relu'}, {type = 'affine'}");
  auto parts = TakeApart(model.network);
  for (const int64_t n : {5, 9}) {
    for (float& v : parts[2].tensors["weight"].Row(n)) v = 0;
    parts[2].tensors["bias"](0, n) = 2;
  }
  model.network = PutTogether(parts, kInputs);
  for (const std::string importance : {"input-norm", "entropy"}) {
    nn::Model pruned = model.Clone();
    FixedFrames frames(kInputs);
    const Matrix before = Output(model.network, frames.first());
    Apply("prune-nodes", "share = 0.063\nmultiple = 1\nimportance = '" + importance + "'", pruned, &frames);
    EXPECT_EQ(pruned.network.layer(2).out_dim(), 30) << importance;
    EXPECT_LT(LargestDifference(before, Output(pruned.network, frames.first())), 1e-4) << importance;
  }
}

// Four nodes that always give 2, below a time-delay layer, which sees fewer frames than they do and each of them
// thrice.
TEST(PruneNodes, TakesANodeOutOfAllFramesOfATimeDelayLayer) {
  for (const std::string between :
       {"{type = 'relu'}, {type = 'batch-norm'}, {type = 'splice', offsets = [-8, 0, 7]}",
        "{type = 'splice', offsets = [-8, 0, 7]}, {type = 'relu'}, {type = 'batch-norm'}"}) {
    nn::Model model = ModelOf("{type = 'tdnn', dim = 32, offsets = [-2, 2]}, " + between + ", {type = 'affine'}");
    auto parts = TakeApart(model.network);
    for (const int64_t n : {5, 9, 10, 31}) {
      for (float& v : parts[1].tensors["weight"].Row(n)) v = 0;
      parts[1].tensors["bias"](0, n) = 2;
    }
    model.network = PutTogether(parts, kInputs);
    for (const std::string importance : {"input-norm", "entropy"}) {
      nn::Model pruned = model.Clone();
      FixedFrames frames(kInputs);
      const Matrix before = Output(model.network, frames.first());
      Apply("prune-nodes", "share = 0.126\nmultiple = 1\nimportance = '" + importance + "'", pruned, &frames);
      EXPECT_EQ(pruned.network.layer(1).out_dim(), 28) << importance;
      EXPECT_EQ(pruned.network.layer(pruned.network.num_layers() - 1).in_dim(), 3 * 28);
      EXPECT_LT(LargestDifference(before, Output(pruned.network, frames.first())), 1e-4) << importance << between;
    }
  }
}

TEST(PruneNodes, RemovesANodeThatFeedsNoFrameOfATimeDelayLayer) {
  nn::Model model = ModelOf("{type = 'affine', dim = 32}, {type = 'relu'}, {type = 'tdnn', dim = 16}");
  auto parts = TakeApart(model.network);
  for (int64_t r = 0; r < 16; ++r) {
    for (const int64_t n : {3, 30}) {
      for (int64_t k = 0; k < 3; ++k) parts[3].tensors["weight"](r, 32 * k + n) = 0;
    }
    for (const int64_t n : {7, 8}) parts[3].tensors["weight"](r, n) = 0;  // these feed the two frames after it
  }
  model.network = PutTogether(parts, kInputs);
  const Matrix x = RandomMatrix(9, kInputs, 1);
  const Matrix before = Output(model.network, x);
  Apply("prune-nodes", "share = 0.063\nmultiple = 1", model);
  EXPECT_EQ(model.network.layer(0).out_dim(), 30);
  EXPECT_LT(LargestDifference(before, Output(model.network, x)), 1e-5);
}

TEST(PruneNodes, PrunesAllHiddenLayersOfATimeDelayNetwork) {
  nn::Model model = ModelOf(Kinds().at("tdnn").layers);
  EXPECT_EQ(Apply("prune-nodes", "", model).size(), 3U);
  // Without a function between them, two products are a rank, whose nodes stay.
  nn::Model factors = ModelOf(
      "{type = 'tdnn-f', dim = 32, bottleneck = 16, bypass = 0}, {type = 'tdnn-f', dim = 32, bottleneck = 16, bypass = "
      "0}, {type = 'affine'}");
  EXPECT_EQ(Apply("prune-nodes", "", factors).size(), 2U);
}

}  // namespace
}  // namespace antiphon::compress
