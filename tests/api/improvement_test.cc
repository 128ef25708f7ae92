// antiphon::Compressor and antiphon::Adapter make what `antiphon compress` and `antiphon adapt` make, bit for bit, and
// refuse early what cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "antiphon/adapter.h"
#include "antiphon/compressor.h"
#include "antiphon/error.h"
#include "antiphon/model.h"
#include "api/error_of.h"
#include "api/two_words.h"
#include "base/file.h"
#include "base/random.h"
#include "data/frame_store.h"

namespace antiphon {
namespace {

using testing::ErrorOf;
using ::testing::HasSubstr;
using ::testing::Pair;

class Improvement : public ::testing::Test {
 protected:
  Improvement() {
    // Outputs as a network at the beginning of its training has them.
    nn::Model mild;
    mild.feature_config = system_.network.feature_config;
    mild.feature_dim = system_.network.feature_dim;
    mild.left_context = system_.network.left_context;
    mild.right_context = system_.network.right_context;
    mild.hmm_json = system_.network.hmm_json;
    mild.log_priors = system_.network.log_priors;
    mild.network = nn::Network(
        Config::Parse("layer = [{type = 'affine', dim = 12}, {type = 'sigmoid'}, {type = 'affine'}]", "net.toml"),
        6 * mild.feature_dim, system_.gmm.hmm.num_pdfs(), 7);
    mild.Save(model_);
    WriteStore("old", 1, 0.0);
    WriteStore("new", 2, 0.7);
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  // Features that their labels shift, and all of them somewhat else.
  void WriteStore(const std::string& name, uint64_t seed, double shift) const {
    const int num_pdfs = system_.gmm.hmm.num_pdfs();
    data::FrameStoreWriter writer(system_.folder / name, testing::kCeps, num_pdfs);
    Rng rng(seed);
    for (int u = 0; u < 12; ++u) {
      Matrix frames(60, testing::kCeps);
      std::vector<int32_t> pdfs;
      for (int64_t t = 0; t < frames.rows(); ++t) {
        pdfs.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(num_pdfs))));
        for (float& value : frames.Row(t)) value = static_cast<float>(shift + 0.3 * rng.Normal());
        frames(t, pdfs.back() % testing::kCeps) += 2.0F;
      }
      writer.Add("utt" + std::to_string(u), "speaker" + std::to_string(u % 4), frames, pdfs);
    }
    writer.Finish();
  }

  void Command(const std::string& arguments) const {
    const std::string command =
        fmt::format("'{}/antiphon' {} </dev/null >'{}' 2>&1", ANTIPHON_BINARY_DIR, arguments, Path("said"));
    ASSERT_EQ(std::system(command.c_str()), 0) << arguments << ": " << ReadFile(Path("said"));
  }

  // Both folders hold the same models.
  void ExpectSameModels(const std::string& ours, const std::string& theirs) const {
    std::set<std::string> names[2];
    for (const int i : {0, 1}) {
      for (const auto& entry : std::filesystem::directory_iterator(Path(i == 0 ? ours : theirs))) {
        if (entry.path().extension() == ".safetensors") names[i].insert(entry.path().filename().string());
      }
    }
    EXPECT_EQ(names[0], names[1]);
    EXPECT_TRUE(names[0].contains("model.safetensors"));
    for (const std::string& name : names[0]) {
      EXPECT_EQ(ReadFile(Path(ours + "/" + name)), ReadFile(Path(theirs + "/" + name))) << name;
    }
  }

  nlohmann::json Json(const std::string& name) const { return nlohmann::json::parse(ReadFile(Path(name))); }

  CompressorSettings Compression(const std::string& method, const std::string& config = "") const {
    return {.model = model_,
            .method = method,
            .out = Path("ours"),
            .frame_store = Path("old"),
            .config = config + kRetraining,
            .threads = 1};
  }
  AdapterSettings Adaptation(const std::string& method, const std::string& config = "") const {
    return {.model = model_,
            .method = method,
            .out = Path("ours"),
            .frame_store = Path("new"),
            .old_store = Path("old"),
            .config = config + kRetraining,
            .threads = 1};
  }

  static constexpr char kRetraining[] =
      "\n[train.schedule]\nepochs = 1\n[train.data]\nminibatch = 64\n[train.held-out]\nfraction = 0.25\n";
  static constexpr char kSameOfTheCommand[] =
      "--train.schedule.epochs 1 --set train.data.minibatch=64 --train.held-out.fraction 0.25 --threads 1";
  const testing::TwoWords system_{false};
  const std::string model_ = Path("mild.safetensors");
};

TEST_F(Improvement, ACompressionIsTheCommands) {
  const std::pair<const char*, const char*> methods[] = {
      {"svd", "svd.energy=0.6"}, {"prune", "prune.sparsity=0.5"}, {"quantize", ""}};
  for (const auto& [method, option] : methods) {
    SCOPED_TRACE(method);
    std::filesystem::remove_all(Path("ours"));
    std::filesystem::remove_all(Path("theirs"));
    const CompressionOutcome made = Compressor(Compression(method, option)).Run();
    Command(fmt::format("compress '{}' --method {} --store '{}' --out '{}' {} {}", model_, method, Path("old"),
                        Path("theirs"), *option == '\0' ? "" : fmt::format("--set {}", option), kSameOfTheCommand));
    ExpectSameModels("ours", "theirs");
    const auto told = Json("theirs/compression.json");
    EXPECT_EQ(made.model_file, Path("ours/model.safetensors"));
    for (const auto& [stage, name] : {std::pair{made.before, "before"}, std::pair{made.compressed, "compressed"},
                                      std::pair{made.retrained, "retrained"}}) {
      EXPECT_EQ(stage.parameters, told.at(name).at("parameters")) << name;
      EXPECT_EQ(stage.bytes, told.at(name).at("bytes")) << name;
      EXPECT_EQ(stage.held_out_loss, told.at(name).at("loss")) << name;
      EXPECT_EQ(stage.held_out_accuracy, told.at(name).at("frame_accuracy")) << name;
    }
    EXPECT_NE(ReadFile(made.model_file), ReadFile(model_));
  }
}

TEST_F(Improvement, AnAdaptationIsTheCommands) {
  for (const auto& [method, option] :
       {std::pair<const char*, const char*>{"kld", "kld.rho=[0.5]"}, {"lhuc", "lhuc.rate=2.0"}}) {
    SCOPED_TRACE(method);
    std::filesystem::remove_all(Path("ours"));
    std::filesystem::remove_all(Path("theirs"));
    const AdaptationOutcome made = Adapter(Adaptation(method, option)).Run();
    Command(fmt::format("adapt '{}' --method {} --store '{}' --old-store '{}' --out '{}' --set '{}' {}", model_, method,
                        Path("new"), Path("old"), Path("theirs"), option, kSameOfTheCommand));
    ExpectSameModels("ours", "theirs");
    const auto told = Json("theirs/adaptation.json");
    EXPECT_EQ(made.accepted, told.at("accepted"));
    EXPECT_EQ(made.verdict, told.at("verdict"));
    EXPECT_EQ(made.new_before.loss, told.at("new").at("before").at("loss"));
    EXPECT_EQ(made.new_after.loss, told.at("new").at("after").at("loss"));
    EXPECT_EQ(made.old_after.accuracy, told.at("old").at("after").at("frame_accuracy"));
    EXPECT_EQ(Model(made.model_file).num_outputs(), system_.gmm.hmm.num_pdfs());
  }
}

TEST_F(Improvement, MistakesAreNamedBeforeAnythingRuns) {
  std::string bytes = ReadFile(model_);
  bytes.resize(bytes.size() - 8);
  WriteFileAtomically(Path("damaged.safetensors"), bytes);
  CompressorSettings compression = Compression("svd");
  compression.model = Path("damaged.safetensors");
  AdapterSettings adaptation = Adaptation("kld");
  adaptation.model = Path("damaged.safetensors");
  struct Case {
    std::function<void()> call;
    ErrorKind kind;
    std::string text;
  };
  const auto compress = [this](const std::string& method, const std::string& config) {
    return [=, this] { Compressor{Compression(method, config)}; };
  };
  const auto adapt = [this](const std::string& method, const std::string& config) {
    return [=, this] { Adapter{Adaptation(method, config)}; };
  };
  for (const Case& c : std::vector<Case>{{compress("", ""), ErrorKind::kUsage, "needs a method"},
                                         {compress("sdv", ""), ErrorKind::kUsage, "'svd'"},
                                         {compress("svd", "svd.enregy = 0.6"), ErrorKind::kUsage, "energy"},
                                         {compress("svd", "svd.energy = 7"), ErrorKind::kUsage, "energy"},
                                         {compress("svd", "nonsense = 3"), ErrorKind::kUsage, "nonsense"},
                                         {compress("svd", "optimizer.type = 'sgt'"), ErrorKind::kUsage, "sgd"},
                                         {[&] { Compressor{compression}; }, ErrorKind::kInput, "damaged"},
                                         {adapt("kdl", ""), ErrorKind::kUsage, "'kld'"},
                                         {adapt("kld", "kld.roh = [0.5]"), ErrorKind::kUsage, "roh"},
                                         {adapt("kld", "min-gian = 0.1"), ErrorKind::kUsage, "min-gain"},
                                         {adapt("kld", "optimizer.momentun = 0.5"), ErrorKind::kUsage, "momentum"},
                                         {[&] { Adapter{adaptation}; }, ErrorKind::kInput, "damaged"}}) {
    const auto [kind, text] = ErrorOf(c.call);
    EXPECT_EQ(kind, c.kind) << text;
    EXPECT_THAT(text, HasSubstr(c.text));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("ours")));
}

TEST_F(Improvement, ARunRefusesWhatIsMissingAndWhatWouldDestroyItsInput) {
  CompressorSettings compression = Compression("svd");
  compression.out = system_.folder.path().string();
  std::filesystem::rename(model_, Path("model.safetensors"));
  const std::string bytes = ReadFile(Path("model.safetensors"));
  AdapterSettings adaptation = Adaptation("kld");
  adaptation.out = compression.out;
  for (const std::string& model : {Path("model.safetensors"), compression.out}) {  // the file, and the folder around it
    compression.model = adaptation.model = model;
    EXPECT_THAT(ErrorOf([&] { Compressor(compression).Run(); }),
                Pair(ErrorKind::kUsage, HasSubstr("would be overwritten")));
    EXPECT_THAT(ErrorOf([&] { Adapter(adaptation).Run(); }),
                Pair(ErrorKind::kUsage, HasSubstr("would be overwritten")));
    EXPECT_EQ(ReadFile(Path("model.safetensors")), bytes);
  }
  compression.out = adaptation.out = "";
  EXPECT_THAT(ErrorOf([&] { Compressor(compression).Run(); }).second, HasSubstr("(out)"));
  EXPECT_THAT(ErrorOf([&] { Adapter(adaptation).Run(); }).second, HasSubstr("(out)"));
  compression.out = adaptation.out = Path("ours");
  compression.cancel.Cancel();
  EXPECT_EQ(ErrorOf([&] { Compressor(compression).Run(); }).first, ErrorKind::kCancelled);
  adaptation.cancel.Cancel();
  EXPECT_EQ(ErrorOf([&] { Adapter(adaptation).Run(); }).first, ErrorKind::kCancelled);
  adaptation.cancel = CancelToken();
  adaptation.frame_store = Path("nowhere");
  EXPECT_THAT(ErrorOf([&] { Adapter(adaptation).Run(); }).second, HasSubstr("nowhere"));
}

}  // namespace
}  // namespace antiphon
