// Objects of the public headers that were moved from: those that copies share stay what they were, others say that they
// were moved away. None crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "antiphon/adapter.h"
#include "antiphon/aligner.h"
#include "antiphon/compressor.h"
#include "antiphon/corpus_aligner.h"
#include "antiphon/corpus_decoder.h"
#include "antiphon/dataset.h"
#include "antiphon/error.h"
#include "antiphon/frame_store.h"
#include "antiphon/front_end.h"
#include "antiphon/g2p.h"
#include "antiphon/model.h"
#include "antiphon/model_file.h"
#include "antiphon/recognizer.h"
#include "antiphon/stream_scorer.h"
#include "antiphon/tables.h"
#include "antiphon/trainer.h"
#include "api/two_words.h"
#include "base/file.h"
#include "data/frame_store.h"
#include "feat/audio.h"

// NOLINTBEGIN(bugprone-use-after-move): that is what these tests are about.
namespace antiphon {
namespace {

using testing::kRateHz;

class MovedFrom : public ::testing::Test {
 protected:
  MovedFrom() {
    feat::WriteWav(system_.folder / "noise.wav", {testing::Noise(kRateHz), kRateHz});
    WriteFileAtomically(system_.folder / "lexicon.txt", "ONE A\nTWO B\n");
    WriteFileAtomically(system_.folder / "data/wav.scp", "u " + Path("noise.wav") + "\n");
    WriteFileAtomically(system_.folder / "data/text", "u ONE TWO\n");
    WriteFileAtomically(system_.folder / "data/utt2spk", "u s\n");
    data::FrameStoreWriter writer(system_.folder / "store", 2, 3);
    writer.Add("u", "s", Matrix(10, 2), std::vector<int32_t>(10, 1));
    writer.Finish();
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  template <class Call>
  static void SaysSo(const std::string& kind, Call&& call) {
    try {
      std::forward<Call>(call)();
      ADD_FAILURE() << "a " << kind << " went on";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUsage);
      EXPECT_THAT(e.what(), ::testing::HasSubstr("this " + kind + " was moved away"));
    }
  }

  // What `ask` says of an object that was moved from is what it says of the one that has it now.
  template <class T, class Ask>
  static void StaysWhatItWas(T object, Ask&& ask) {
    const auto before = ask(object);
    T other = std::move(object);
    EXPECT_EQ(ask(object), before);
    EXPECT_EQ(ask(other), before);
    T assigned = other;
    assigned = std::move(other);
    EXPECT_EQ(ask(other), before);
    EXPECT_EQ(ask(assigned), before);
  }

  const testing::TwoWords system_{false};
  const std::vector<float> speech_ = std::vector<float>(kRateHz, 0.25F);
};

TEST_F(MovedFrom, WhatCopiesShareStaysWhatItWas) {
  const auto recognizer = [&] { return Recognizer(Path("net.safetensors"), Path("graph"), {.beam = 4}); };
  StaysWhatItWas(recognizer(), [&](const Recognizer& r) { return r.Recognize(speech_, kRateHz); });
  StaysWhatItWas(recognizer(), [&](const Recognizer& r) { return r.RecognizeFile(Path("noise.wav")); });
  StaysWhatItWas(recognizer(), [&](const Recognizer& r) {
    return std::tuple(r.Vocabulary(), r.sample_rate_hz(), r.UsesMemory(), r.NewStream(kRateHz).Accept(speech_));
  });
  StaysWhatItWas(Aligner(Path("net.safetensors"), Path("lexicon.txt")),
                 [&](const Aligner& a) { return a.AlignFile(Path("noise.wav"), "ONE TWO").words; });
  StaysWhatItWas(FrontEnd(system_.network.feature_config),
                 [&](const FrontEnd& f) { return std::pair(f.options(), f.Compute(speech_, kRateHz)); });
  StaysWhatItWas(FrameStore(Path("store")), [](const FrameStore& s) {
    return std::tuple(s.num_frames(), s.Features(0), Minibatches(s, {}, 0).size());
  });
  StaysWhatItWas(Dataset(Path("data")), [](const Dataset& d) {
    return std::tuple(d.utterances()[0].text, d.speakers(), d.Samples(0).samples);
  });
  TrainG2p(Path("lexicon.txt"), Path("toy.g2p"), "order = 2", 1);
  StaysWhatItWas(G2p(Path("toy.g2p")), [](const G2p& g) { return std::pair(g.Letters(), g.Pronounce("ONE")); });
  StaysWhatItWas(SpeakerMemory("anna"), [](const SpeakerMemory& m) { return m.speaker(); });
  StaysWhatItWas(Error("no"), [](const Error& e) { return std::string(e.what()); });
  CancelToken token;
  const CancelToken same = std::move(token);
  token.Cancel();
  EXPECT_TRUE(same.cancelled());
}

// What they were made with stays, and so do their errors.
TEST_F(MovedFrom, WhatDoesOneJobStaysWhatItWas) {
  const auto error_of = [](auto&& job) {
    try {
      job.Run();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  const TrainerSettings training{.frame_store = Path("nowhere"), .run_folder = Path("run")};
  const CompressorSettings compression{
      .model = Path("net.safetensors"), .method = "svd", .out = Path("svd"), .frame_store = Path("nowhere")};
  const AdapterSettings adaptation{
      .model = Path("net.safetensors"), .out = Path("adapted"), .frame_store = Path("nowhere")};
  Trainer trainer(training);
  EXPECT_THAT(error_of(trainer), ::testing::HasSubstr("nowhere"));
  StaysWhatItWas(trainer, error_of);
  StaysWhatItWas(Compressor(compression), error_of);
  StaysWhatItWas(Adapter(adaptation), error_of);
  const CorpusDecoderSettings decoding{
      .model = Path("net.safetensors"), .graph = Path("nowhere"), .data = Path("data"), .out = Path("decoded")};
  const CorpusAlignerSettings alignment{
      .data = Path("data"), .model = Path("net.safetensors"), .lexicon = Path("nowhere"), .out = Path("aligned")};
  EXPECT_THAT(error_of(CorpusDecoder(decoding)), ::testing::HasSubstr("nowhere"));
  EXPECT_THAT(error_of(CorpusAligner(alignment)), ::testing::HasSubstr("nowhere"));
  StaysWhatItWas(CorpusDecoder(decoding), error_of);
  StaysWhatItWas(CorpusAligner(alignment), error_of);
}

TEST_F(MovedFrom, AModelAndItsScorersSayThatTheyWereMovedAway) {
  Model model(Path("net.safetensors"));
  const Model there = std::move(model);
  SaysSo("Model", [&] { model.feature_dim(); });
  SaysSo("Model", [&] { model.left_context(); });
  SaysSo("Model", [&] { model.right_context(); });
  SaysSo("Model", [&] { model.num_outputs(); });
  SaysSo("Model", [&] { model.num_parameters(); });
  SaysSo("Model", [&] { model.network(); });
  SaysSo("Model", [&] { model.features(); });
  SaysSo("Model", [&] { model.LoadProfile("x"); });
  SaysSo("Model", [&] { model.LogLikelihoods({}); });
  SaysSo("Model", [&] { StreamScorer{model}; });
  model = Model(Path("net.safetensors"));
  EXPECT_EQ(model.feature_dim(), there.feature_dim()) << "another may take its place";

  StreamScorer scorer(there);
  StreamScorer other = std::move(scorer);
  SaysSo("StreamScorer", [&] { scorer.Open(); });
  SaysSo("StreamScorer", [&] { scorer.RunBatch(0); });
  StreamScorer::Stream stream = other.Open();
  StreamScorer::Stream taken = std::move(stream);
  SaysSo("StreamScorer::Stream", [&] { stream.Accept({}, 0); });
  SaysSo("StreamScorer::Stream", [&] { stream.Finish(); });
  SaysSo("StreamScorer::Stream", [&] { stream.Take(); });
  taken.Finish();
  other.RunBatch(0);
  EXPECT_TRUE(taken.Take().empty());
}

TEST_F(MovedFrom, AStreamSaysThatItWasMovedAway) {
  const Recognizer recognizer(Path("net.safetensors"), Path("graph"));
  Stream stream = recognizer.NewStream(kRateHz);
  Stream there = std::move(stream);
  SaysSo("Stream", [&] { stream.Accept(speech_); });
  SaysSo("Stream", [&] { stream.Accept(std::vector<int16_t>(10)); });
  SaysSo("Stream", [&] { stream.End(); });
  SaysSo("Stream", [&] { stream.AudioRemarks(); });
  SaysSo("Stream", [&] { stream.memory(); });
  EXPECT_TRUE(stream.ended());
  EXPECT_FALSE(there.ended());
  stream = std::move(there);
  stream.Accept(speech_);
  EXPECT_FALSE(stream.End().empty());
}

TEST_F(MovedFrom, MinibatchesSayThatTheyWereMovedAway) {
  const FrameStore store(Path("store"));
  Minibatches epoch(store, {.minibatch = 4}, 0);
  Minibatches there = std::move(epoch);
  SaysSo("Minibatches", [&] { epoch.size(); });
  SaysSo("Minibatches", [&] { epoch.Next(); });
  SaysSo("Minibatches", [&] { epoch.WaitForNext(std::chrono::milliseconds(1)); });
  Minibatch first = there.Next().value();
  const Minibatch same = std::move(first);
  SaysSo("Minibatch", [&] { first.num_frames(); });
  SaysSo("Minibatch", [&] { first.dim(); });
  SaysSo("Minibatch", [&] { first.features(); });
  SaysSo("Minibatch", [&] { first.labels(); });
  SaysSo("Minibatch", [&] { first.weights(); });
  SaysSo("Minibatch", [&] { first.frame_ids(); });
  EXPECT_EQ(same.num_frames(), 4);
}

TEST_F(MovedFrom, TablesSayThatTheyWereMovedAway) {
  TableWriter writer(Path("t.ark"));
  TableWriter there = std::move(writer);
  SaysSo("TableWriter", [&] { writer.WriteMatrix("a", std::vector<float>{1, 2}, 2); });
  SaysSo("TableWriter", [&] { writer.WriteVector("a", std::vector<float>{1}); });
  SaysSo("TableWriter", [&] { writer.WriteIntegers("a", std::vector<int32_t>{1}); });
  SaysSo("TableWriter", [&] { writer.Close(); });
  there.WriteIntegers("a", std::vector<int32_t>{1});
  there.Close();
  TableReader reader(Path("t.scp"));
  TableReader same = std::move(reader);
  SaysSo("TableReader", [&] { reader.kind(); });
  SaysSo("TableReader", [&] { reader.Next(); });
  SaysSo("TableReader", [&] { reader.key(); });
  SaysSo("TableReader", [&] { reader.value(); });
  EXPECT_TRUE(same.Next());
}

TEST_F(MovedFrom, ValuesAreEmpty) {
  ModelFile file = ModelFile::Read(Path("net.safetensors"));
  const ModelFile there = std::move(file);
  EXPECT_THROW(file.Write(Path("x.safetensors")), Error);
  file = there;
  EXPECT_EQ(file.NumOutputs(), there.NumOutputs());
  SpeakerProfile nobody;
  const SpeakerProfile also = std::move(nobody);
  EXPECT_EQ(nobody.speaker(), "");
  static_assert(!std::is_move_constructible_v<CancelWith>);
}

// A class that is added to the headers has to be added here.
TEST(MovedFromTests, KnowEveryClass) {
  const std::set<std::string> tried = {
      "Adapter",     "Aligner",      "CancelWith",  "Compressor",  "CorpusAligner", "CorpusDecoder",
      "Dataset",     "Error",        "FrameStore",  "FrontEnd",    "G2p",           "Minibatch",
      "Minibatches", "Model",        "ModelFile",   "Recognizer",  "SpeakerMemory", "SpeakerProfile",
      "Stream",      "StreamScorer", "TableReader", "TableWriter", "Trainer",       "CancelToken"};
  std::set<std::string> found;
  for (const auto& header :
       std::filesystem::directory_iterator(std::string(ANTIPHON_SOURCE_DIR) + "/include/antiphon")) {
    const std::string text = ReadFile(header.path());
    const std::regex pattern("\\n *(?:class|struct ANTIPHON_API) (?:ANTIPHON_API )?(\\w+)[^;\\n]*\\{");
    for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) found.insert((*it)[1]);
  }
  EXPECT_EQ(found, tried);
}

}  // namespace
}  // namespace antiphon
// NOLINTEND(bugprone-use-after-move)
