// Recognisers in one folder or file: what they hold, that they decode as their parts do, and what is refused.
#include "pipeline/bundle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <vector>

#include "antiphon.h"
#include "antiphon/aligner.h"
#include "antiphon/model.h"
#include "antiphon/model_file.h"
#include "antiphon/recognizer.h"
#include "api/two_words.h"
#include "base/archive.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "feat/audio.h"
#include "pipeline/chosen_weights.h"
#include "pipeline/decode.h"
#include "pipeline/training_job.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

// The parameter: what the bundle is called, a file or a folder.
class BundleTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    pipeline::WriteChosenWeights(Path("weights.toml"), {.lm_weight = 3.0, .word_penalty = 0.5}, "of a test");
    pipeline::BundleRequest request;
    request.model = Path("net.safetensors");
    request.graph = Path("graph");
    request.weights = Path("weights.toml");
    request.licence = "CC0";
    request.out = bundle_;
    card_ = pipeline::WriteBundle(request);
    feat::WriteWav(Path("noise.wav"), {testing::Noise(testing::kRateHz * 2), testing::kRateHz});
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  std::string Decode(const std::string& model, const std::string& graph, const std::string& weights) {
    pipeline::DecodeRequest request;
    request.model = model;
    request.graph = graph;
    request.weights = weights;
    request.data = Path("noise.wav");
    request.out = Path("out");
    request.lattices = false;
    std::filesystem::remove_all(request.out);
    pipeline::Decode(request, Team::Alone(), 1);
    return ReadFile(Path("out/results.jsonl"));
  }
  std::string WhyRefused() const {
    try {
      pipeline::OpenBundle(bundle_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "taken";
  }
  // The bundle with the first of these texts in it replaced by the second, of the same length.
  void Change(const std::string& file, const std::string& from, const std::string& to) {
    ASSERT_EQ(from.size(), to.size());
    const std::string path = std::filesystem::is_directory(bundle_) ? bundle_ + "/" + file : bundle_;
    std::string bytes = ReadFile(path);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    WriteFileAtomically(path, bytes.replace(at, from.size(), to));
  }

  testing::TwoWords system_{false};
  const std::string bundle_ = Path(GetParam());
  nlohmann::ordered_json card_;
};

TEST_P(BundleTest, DecodesAsItsPartsDo) {
  const std::string parts = Decode(Path("net.safetensors"), Path("graph"), Path("weights.toml"));
  EXPECT_EQ(Decode(bundle_, "", ""), parts);
  pipeline::WriteChosenWeights(Path("other.toml"), {.lm_weight = 30.0, .word_penalty = 0.5}, "of a test");
  EXPECT_EQ(Decode(bundle_, "", Path("other.toml")), Decode(Path("net.safetensors"), Path("graph"), Path("other.toml")))
      << "what is given counts";
}

// One text and settings are a bundle and its settings, however they are written; two texts are a model and its graph.
TEST_P(BundleTest, IsOpenedWithSettingsAlone) {
  const std::string audio = Path("noise.wav");
  const Recognition three = Recognizer(bundle_, "", {.beam = 6, .nbest = 3}).RecognizeFile(audio);
  ASSERT_EQ(three.nbest.size(), 3U);
  const RecognizerSettings settings{.beam = 6, .nbest = 3};
  const Recognizer braces(bundle_, {.beam = 6, .nbest = 3});
  const Recognizer value(bundle_, settings);
  const Recognizer list{bundle_, {.beam = 6, .nbest = 3}};
  const Recognizer literal(bundle_.c_str(), {.beam = 6, .nbest = 3, .options = "nnet.lazy = false"});
  for (const Recognizer& recognizer : {braces, value, list, literal}) {
    EXPECT_EQ(recognizer.RecognizeFile(audio), three);
  }
  const Recognition plain = Recognizer(bundle_).RecognizeFile(audio);
  EXPECT_EQ(Recognizer(bundle_, {}).RecognizeFile(audio), plain);
  EXPECT_EQ(Recognizer(bundle_, "").RecognizeFile(audio), plain);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { Recognizer(bundle_, "/nowhere"); }, [&] { Recognizer(bundle_, std::string("/nowhere")); },
           [&] { Recognizer(bundle_, std::filesystem::path("/nowhere")); }}) {
    EXPECT_THROW(call(), Error) << "a graph";
  }
  EXPECT_EQ(Aligner(bundle_, {.beam = 12}).AlignFile(audio, "ONE TWO").words,
            Aligner(bundle_, "", {.beam = 12}).AlignFile(audio, "ONE TWO").words);
  EXPECT_EQ(Aligner(bundle_, {}).AlignFile(audio, "ONE TWO").words, Aligner(bundle_).AlignFile(audio, "ONE TWO").words);
  EXPECT_THROW(Aligner(bundle_, {.options = "no-such-key = 1"}), Error) << "settings count";
  static_assert(!std::is_constructible_v<Recognizer, const char*, int>);
  static_assert(std::is_constructible_v<Recognizer, const char*, RecognizerSettings>);
  static_assert(std::is_nothrow_move_constructible_v<Recognizer>, "in a vector that grows");
}

TEST_P(BundleTest, NeedsNoGraphNorLexiconInC) {
  antiphon_recognizer* recognizer = antiphon_recognizer_new(bundle_.c_str(), nullptr, nullptr);
  EXPECT_EQ(antiphon_recognizer_status(recognizer), ANTIPHON_OK) << antiphon_recognizer_error(recognizer);
  antiphon_recognizer_free(&recognizer);
  antiphon_aligner* aligner = antiphon_aligner_new(bundle_.c_str(), nullptr, nullptr);
  EXPECT_EQ(antiphon_aligner_status(aligner), ANTIPHON_OK) << antiphon_aligner_error(aligner);
  antiphon_aligner_free(&aligner);
  recognizer = antiphon_recognizer_new(Path("net.safetensors").c_str(), nullptr, nullptr);
  EXPECT_EQ(antiphon_recognizer_status(recognizer), ANTIPHON_ERROR_USAGE);
  EXPECT_THAT(antiphon_recognizer_error(recognizer), HasSubstr("graph is missing"));
  antiphon_recognizer_free(&recognizer);
}

TEST_P(BundleTest, SaysWhatItHolds) {
  EXPECT_EQ(card_.at("name"), "small");
  EXPECT_EQ(card_.at("licence"), "CC0");
  EXPECT_EQ(pipeline::ReadBundleCard(bundle_), card_);
  const pipeline::BundleParts parts = pipeline::OpenBundle(bundle_);
  EXPECT_TRUE(IsThere(parts.model));
  EXPECT_TRUE(IsThere(parts.lexicon));
  EXPECT_EQ(parts.adapt_graph, "");
  EXPECT_EQ(parts.rescore_arpa, "");
}

TEST_P(BundleTest, RefusesWhatIsDamagedOrNewer) {
  ASSERT_EQ(WhyRefused(), "taken");
  Change("graph/words.txt", "TWO", "TOO");
  EXPECT_THAT(WhyRefused(), HasSubstr(std::filesystem::is_directory(bundle_) ? "graph/words.txt" : "small.antiphon"));
  Change("card.json", "\"format\": 1", "\"format\": 9");
  EXPECT_THAT(WhyRefused(), HasSubstr("format 9"));
}

TEST_P(BundleTest, RefusesPartsThatAreMissing) {
  if (!std::filesystem::is_directory(bundle_)) {
    const std::string bytes = ReadFile(bundle_);
    WriteFileAtomically(bundle_, std::string_view(bytes).substr(0, bytes.size() / 2));
    EXPECT_THAT(WhyRefused(), HasSubstr("cut short"));
    WriteFileAtomically(bundle_, "");
    EXPECT_THAT(WhyRefused(), HasSubstr("small.antiphon"));
    return;
  }
  std::filesystem::remove(bundle_ + "/graph/HCLG.fst");
  EXPECT_THAT(WhyRefused(), HasSubstr("lacks its file 'graph/HCLG.fst'"));
}

TEST_P(BundleTest, StandsForItsNetwork) {
  const ModelFile network = ModelFile::Read(Path("net.safetensors")), of_bundle = ModelFile::Read(bundle_);
  EXPECT_EQ(of_bundle.network, network.network);
  ASSERT_EQ(of_bundle.tensors.size(), network.tensors.size());
  for (size_t t = 0; t < network.tensors.size(); ++t) {
    EXPECT_EQ(of_bundle.tensors[t].values, network.tensors[t].values) << network.tensors[t].name;
  }
  EXPECT_EQ(Model(bundle_).num_parameters(), Model(Path("net.safetensors")).num_parameters());
}

INSTANTIATE_TEST_SUITE_P(FileAndFolder, BundleTest, ::testing::Values("small.antiphon", "small"),
                         [](const auto& which) { return which.index == 0 ? "File" : "Folder"; });

TEST(Bundle, NeedsWhatItIsMadeOf) {
  const testing::TwoWords system(false);
  pipeline::BundleRequest request;
  request.out = (system.folder / "x").string();
  EXPECT_THROW(pipeline::WriteBundle(request), UsageError);
  request.experiment = (system.folder / "none").string();
  EXPECT_THROW(pipeline::WriteBundle(request), InputError);
  request.experiment = system.folder.path().string();
  EXPECT_THROW(pipeline::WriteBundle(request), InputError) << "no network/model.safetensors in it";
  EXPECT_FALSE(std::filesystem::exists(request.out));
}

// Found while it is put together, not where it is decoded with.
TEST(Bundle, TakesOnlyPartsThatFitTogether) {
  const testing::TwoWords system(true);
  pipeline::BundleRequest request;
  request.model = (system.folder / "net.safetensors").string();
  request.graph = (system.folder / "graph").string();
  request.adapt_graph = request.graph;
  request.out = (system.folder / "made").string();
  pipeline::WriteBundle(request);
  EXPECT_NE(pipeline::OpenBundle(request.out).adapt_graph, "");

  const hmm::Topology chain = hmm::Topology::Chain(system.gmm.hmm.phones());
  const hmm::HmmModel other(system.gmm.hmm.phones(), chain, hmm::ContextTree::Monophone(chain));
  fst::StdVectorFst fst;
  decode::BuildGraphFst(other, testing::TwoWords::TheLexicon(), testing::TwoWords::Grammar(), {}, &fst);
  decode::SaveGraph(fst, other, testing::TwoWords::TheLexicon(), "two words", {}, system.folder / "other");
  request.out = (system.folder / "none").string();
  request.adapt_graph = (system.folder / "other").string();
  EXPECT_THAT([&] { pipeline::WriteBundle(request); }, ::testing::ThrowsMessage<InputError>(HasSubstr("/other")));

  request.adapt_graph.clear();
  WriteFileAtomically(system.folder / "no.arpa", "words\n");
  request.rescore_arpa = request.graph_arpa = (system.folder / "no.arpa").string();
  EXPECT_THAT([&] { pipeline::WriteBundle(request); }, ::testing::ThrowsMessage<InputError>(HasSubstr("no.arpa")));
  EXPECT_FALSE(std::filesystem::exists(request.out));
}

TEST(Bundle, MayBeTheFolderOfARecipe) {
  const testing::TwoWords system(false);
  const auto folder = system.folder / "exp";
  std::filesystem::create_directories(folder / "network");
  std::filesystem::copy(system.folder / "net.safetensors", folder / "network" / "model.safetensors");
  std::filesystem::copy(system.folder / "graph", folder / "graph");
  const pipeline::BundleParts parts = pipeline::PartsAt(folder.string());
  EXPECT_EQ(parts.model, (folder / "network" / "model.safetensors").string());
  EXPECT_EQ(parts.graph, (folder / "graph").string());
  EXPECT_EQ(parts.weights + parts.vad + parts.adapt_graph, "");
  EXPECT_EQ(Recognizer(folder.string()).Vocabulary(),
            Recognizer((system.folder / "net.safetensors").string(), (system.folder / "graph").string()).Vocabulary());
  train::TrainingRequest request;
  request.hmm = folder.string();
  EXPECT_EQ(pipeline::WithModelFiles(request).hmm, parts.model);
  // A model in the folder itself goes before the network's; the rest comes with it.
  for (const char* name :
       {"model.safetensors", "vad/network/model.safetensors", "graph-gmm", "decode-dev/weights.toml"}) {
    std::filesystem::create_directories((folder / name).parent_path());
    WriteFileAtomically(folder / name, "");
  }
  const pipeline::BundleParts all = pipeline::PartsAt(folder.string());
  EXPECT_EQ(all.model, (folder / "model.safetensors").string());
  EXPECT_EQ(all.vad, (folder / "vad/network/model.safetensors").string());
  EXPECT_EQ(all.adapt_graph, (folder / "graph-gmm").string());
  EXPECT_EQ(all.weights, (folder / "decode-dev/weights.toml").string());
  EXPECT_THAT([&] { pipeline::PartsAt(system.folder.path().string()); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("neither card.json nor")));
}

// Files of more than a mebibyte, too, unless their readers compare checksums.
TEST(Bundle, RefusesALargeTextThatChanged) {
  const testing::TwoWords system(false);
  std::string arpa = "\\data\\\nngram 1=60001\n\n\\1-grams:\n-4.7781513\t</s>\n";
  for (int word = 0; word < 60000; ++word) arpa += fmt::format("-4.7781513\tWORD{:05}\n", word);
  WriteFileAtomically(system.folder / "large.arpa", arpa + "\n\\end\\\n");
  pipeline::BundleRequest request;
  request.model = (system.folder / "net.safetensors").string();
  request.graph = (system.folder / "graph").string();
  request.rescore_arpa = (system.folder / "large.arpa").string();
  request.graph_arpa = request.rescore_arpa;
  request.out = (system.folder / "large.antiphon").string();
  pipeline::WriteBundle(request);
  std::string bytes = ReadFile(request.out);
  bytes.replace(bytes.rfind("WORD31234"), 9, "WORD31299");
  WriteFileAtomically(request.out, bytes);
  EXPECT_THAT([&] { pipeline::OpenBundle(request.out); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("'rescore.arpa' is not what its card describes")));
}

}  // namespace
}  // namespace antiphon
