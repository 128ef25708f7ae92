// antiphon::Aligner and an alignment (pipeline/align.h) of the same recording by the same model say the same.
#include "antiphon/aligner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "antiphon/error.h"
#include "api/as_decode.h"
#include "base/error.h"
#include "pipeline/align.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

class AsAlign : public testing::AsDecode {
 protected:
  AsAlign() {
    WriteFileAtomically(Lexicon(), "ONE A\nTWO B\nTWO A B\n<UNK> SIL\n");
    WriteFileAtomically(Path("text.tsv"), "noise\tONE TWO TWO ONE TWO ONE\n");
  }
  std::string Lexicon() const { return Path("lexicon.txt"); }

  pipeline::AlignRequest Request(const std::string& model, const std::string& speech) const {
    pipeline::AlignRequest request;
    request.model = model;
    request.data = speech;
    request.lexicon = Lexicon();
    request.out = Path("ali");
    request.audio.transcripts = Path("text.tsv");
    return request;
  }

  // A network whose frames are three of the features' each.
  std::string ChainNetwork() {
    const std::string name = Model(true);
    nn::Model model = nn::Model::Load(name);
    model.network = nn::Network(
        Config::Parse("layer = [{type = 'tdnn', dim = 12}, {type = 'splice', offsets = [-1, 0, 1], stride = 3}, {type "
                      "= 'affine', init-scale = 20.0}]",
                      "net.toml"),
        6 * model.feature_dim, system_.gmm.hmm.num_pdfs(), 7);
    model.frame_subsampling = 3;
    model.Save(name);
    return name;
  }

  void ExpectSame(const AlignedSpeech& speech, const pipeline::AlignRequest& request) {
    std::filesystem::remove_all(request.out);
    pipeline::Align(request, Team::Alone(), 1);
    EXPECT_EQ(ToCtm(speech, "noise"), ReadFile(Path("ali/words.ctm")));
    EXPECT_EQ(ToCtm(speech, "noise", CtmLabels::kPhones), ReadFile(Path("ali/phones.ctm")));
  }

  static constexpr char kText[] = "ONE TWO TWO ONE TWO ONE";
};

// Of these phones, and silence: those that the model has, too, keep their Gaussians.
hmm::GmmModel WithPhones(const hmm::GmmModel& model, const std::vector<std::string>& names) {
  hmm::GmmModel changed = model;
  const hmm::PhoneSet phones(names, {"SIL"}, false);
  const hmm::Topology topology(phones, {});
  changed.hmm = hmm::HmmModel(phones, topology, hmm::ContextTree::Monophone(topology));
  const auto pdf_of = [](const hmm::HmmModel& hmm, const std::string& phone, int state) {
    const int32_t window[] = {hmm.phones().Id(phone)};
    return hmm.transitions().EntryPdf(hmm.TransitionState(window, state));
  };
  const auto change = [&](const hmm::GmmSet& before) {
    const hmm::GmmSet set = testing::SmallGmmSet(changed.hmm.num_pdfs(), before.dim(), 5);
    Matrix means = set.means();
    for (const std::string& phone : phones.Names()) {
      if (model.hmm.phones().Find(phone) == 0) continue;
      const auto states = static_cast<int>(topology.Entry(phones.Id(phone)).size()) - 1;
      for (int state = 0; state < states; ++state) {
        const auto from = before.means().Row(pdf_of(model.hmm, phone, state));
        std::ranges::copy(from, means.Row(pdf_of(changed.hmm, phone, state)).begin());
      }
    }
    return hmm::GmmSet({set.first_gaussians().begin(), set.first_gaussians().end()},
                       {set.weights().begin(), set.weights().end()}, std::move(means), set.variances());
  };
  changed.gmm = change(model.gmm);
  changed.first_pass = change(*model.first_pass);
  return changed;
}

TEST_F(AsAlign, FindsTheSameTimes) {
  for (const bool network : {false, true}) {
    for (const int seconds : {3, 12}) {  // with speech enough to adapt to
      SCOPED_TRACE(fmt::format("{}, {} s", network ? "network" : "Gaussians", seconds));
      const std::string model = Model(network), speech = Speech(seconds);
      const AlignedSpeech aligned = Aligner(model, Lexicon()).AlignFile(speech, kText);
      ExpectSame(aligned, Request(model, speech));
      ASSERT_EQ(aligned.words.size(), 6U);
      EXPECT_NEAR(aligned.duration_s, seconds, 1e-6);
      double end_s = 0;
      for (const AlignedPhone& phone : aligned.phones) {
        EXPECT_EQ(phone.start_s, end_s);
        end_s = phone.end_s;
      }
      for (const AlignedWord& word : aligned.words) {
        ASSERT_GE(word.num_phones, 1);
        EXPECT_EQ(aligned.phones[static_cast<size_t>(word.first_phone)].start_s, word.start_s);
        EXPECT_EQ(aligned.phones[static_cast<size_t>(word.first_phone + word.num_phones - 1)].end_s, word.end_s);
      }
      EXPECT_LT(aligned.log_likelihood, 0);
    }
  }
}

// The command takes its normalisation from the model, where nobody says otherwise, as the library does: the same path
// with the same likelihood, bit for bit.
TEST_F(AsAlign, NormalisesAsTheModelSays) {
  std::vector<double> likelihoods;
  for (const char* normalisation : {"mean", "mean-variance", "none"}) {
    SCOPED_TRACE(normalisation);
    const std::string model = Model(true, normalisation), speech = Speech(12);
    const AlignedSpeech aligned =
        Aligner(model, Lexicon(), {.retry_beam = 1e6, .adapt = false}).AlignFile(speech, kText);
    pipeline::AlignRequest request = Request(model, speech);
    request.training.align.retry_beam = 1e6;
    request.adapt = false;
    request.files = {"json"};
    ExpectSame(aligned, request);
    auto ours = nlohmann::json::parse(ToJson(aligned));
    auto theirs = nlohmann::json::parse(ReadFile(Path("ali/json/noise.json")));
    ours.erase("duration");  // of the audio; the command has that of its frames
    theirs.erase("duration");
    EXPECT_EQ(ours, theirs);
    likelihoods.push_back(aligned.log_likelihood);
  }
  EXPECT_NE(likelihoods[0], likelihoods[1]);
  EXPECT_NE(likelihoods[0], likelihoods[2]);
}

// The Gaussians that adapt it align frames of their own.
TEST_F(AsAlign, TimesOfAChainModelAreSeconds) {
  const std::string name = ChainNetwork(), speech = Speech(12);
  for (const bool adapt : {false, true}) {
    SCOPED_TRACE(adapt ? "adapted" : "not adapted");
    const AlignedSpeech aligned = Aligner(name, Lexicon(), {.adapt = adapt}).AlignFile(speech, kText);
    pipeline::AlignRequest request = Request(name, speech);
    request.adapt = adapt;
    ExpectSame(aligned, request);
    EXPECT_NEAR(aligned.phones.back().end_s, 12.0, 0.05);
    EXPECT_EQ(std::filesystem::exists(Path("ali/fmllr.scp")), adapt);
    // In steps of the features: the recording ends within a frame of the network.
    EXPECT_NE(std::lround(aligned.phones.back().end_s / 0.01) % 3, 0) << aligned.phones.back().end_s;
  }
}

// By names of phones, whatever ids these have.
TEST_F(AsAlign, GaussiansMayHaveOtherPhonesThanTheNetworkThatTheyAdapt) {
  const std::string name = ChainNetwork(), speech = Speech(12);
  AlignerSettings settings{.options = "min-fmllr-frames = 10"};
  pipeline::AlignRequest request = Request(name, speech);
  request.training.min_fmllr_frames = 10;
  const auto adapt_by = [&](const std::vector<std::string>& phones) {
    WithPhones(system_.gmm, phones).Save(Path("other.safetensors"));
    const MappedFile file(Path("other.safetensors"));
    nn::Model model = nn::Model::Load(name);
    model.speaker_model.assign(file.bytes().begin(), file.bytes().end());
    model.Save(name);
  };
  std::vector<std::string> transforms;
  for (const std::vector<std::string>& phones : {std::vector<std::string>{"A", "B"}, {"0", "A", "B"}}) {
    adapt_by(phones);
    ExpectSame(Aligner(name, Lexicon(), settings).AlignFile(speech, kText), request);
    EXPECT_NE(pipeline::ReadSpeakerTransforms(Path("ali/fmllr.scp")).begin()->second(0, 0), 1.0F);
    transforms.push_back(ReadFile(Path("ali/fmllr.ark")));
  }
  EXPECT_EQ(transforms[0], transforms[1]);

  adapt_by({"A", "C"});
  try {
    Aligner(name, Lexicon(), settings).AlignFile(speech, kText);
    ADD_FAILURE() << "aligned words in phones that the Gaussians lack";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(HasSubstr("do not have all phones"), HasSubstr("'B'")));
  }
  settings.adapt = false;
  EXPECT_EQ(Aligner(name, Lexicon(), settings).AlignFile(speech, kText).words.size(), 6U);
}

TEST_F(AsAlign, TakesTheOptionsOfTheCommand) {
  const std::string model = Model(true), speech = Speech(12);
  pipeline::AlignRequest request = Request(model, speech);
  request.adapt = false;
  request.training.align.silence_boost = 3;
  request.nnet.precision = "int8";
  AlignerSettings settings{.adapt = false, .precision = "int8", .options = "align.silence-boost = 3"};
  ExpectSame(Aligner(model, Lexicon(), settings).AlignFile(speech, kText), request);
  settings.options = "align.silence-bost = 3";
  EXPECT_THROW(Aligner(model, Lexicon(), settings), UsageError);
  settings.options = "";
  settings.beam = -1;
  EXPECT_THROW(Aligner(model, Lexicon(), settings), UsageError);
}

TEST_F(AsAlign, AlignsUnknownWordsOrRefusesThem) {
  const std::string model = Model(true), speech = Speech(3);
  const AlignedSpeech aligned = Aligner(model, Lexicon()).AlignFile(speech, " ONE  ZEBRA\nTWO");
  ASSERT_EQ(aligned.words.size(), 3U);
  EXPECT_EQ(aligned.words[1].word, "<UNK>");
  EXPECT_EQ(aligned.unknown_words, std::vector<std::string>{"ZEBRA"});
  const auto message = [&](const std::string& text) -> std::string {
    try {
      Aligner(model, Lexicon(), {.map_unknown_words = false}).AlignFile(speech, text);
    } catch (const std::exception& e) {
      EXPECT_EQ(KindOf(e), ErrorKind::kInput);
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message("ONE ZEBRA"), ::testing::AllOf(HasSubstr("ZEBRA"), HasSubstr("noise.wav")));
  std::string much;
  for (int i = 0; i < 500; ++i) much += "ONE ";
  EXPECT_THAT(message(much), HasSubstr("too short"));
  EXPECT_EQ(message("ONE TWO"), "");
}

TEST_F(AsAlign, RefusesWhatCannotBe) {
  const Aligner aligner(Model(true), Lexicon());
  const std::vector<float> speech(8000, 0.1F), nan(8000, NAN);
  EXPECT_THROW(aligner.Align(speech, 0, "ONE"), UsageError);
  EXPECT_THROW(aligner.Align(nan, testing::kRateHz, "ONE"), InputError);
  EXPECT_THROW(aligner.Align({}, testing::kRateHz, "ONE"), InputError);
  const CancelToken stop;
  stop.Cancel();
  EXPECT_THROW(aligner.Align(speech, testing::kRateHz, "ONE", {.cancel = stop}), Cancelled);
  EXPECT_THROW(Aligner(Path("missing.safetensors"), Lexicon()), IoError);
  WriteFileAtomically(Path("other.txt"), "ONE X Y\n");
  EXPECT_THROW(Aligner(Path("net.safetensors"), Path("other.txt")), InputError);
}

TEST(AlignedSpeechText, HasPraatsTiersWithoutGaps) {
  AlignedSpeech speech;
  speech.duration_s = 0.5;
  speech.phones = {{"SIL", 0.0, 0.1}, {"A", 0.1, 0.25}, {"B", 0.25, 0.3}};
  speech.words = {{"a\"b", 0.1, 0.3, 1, 2}};
  EXPECT_EQ(ToTextGrid(speech), R"(File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 0.500000
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 0.500000
        intervals: size = 3
        intervals [1]:
            xmin = 0.000000
            xmax = 0.100000
            text = ""
        intervals [2]:
            xmin = 0.100000
            xmax = 0.300000
            text = "a""b"
        intervals [3]:
            xmin = 0.300000
            xmax = 0.500000
            text = ""
    item [2]:
        class = "IntervalTier"
        name = "phones"
        xmin = 0
        xmax = 0.500000
        intervals: size = 4
        intervals [1]:
            xmin = 0.000000
            xmax = 0.100000
            text = "SIL"
        intervals [2]:
            xmin = 0.100000
            xmax = 0.250000
            text = "A"
        intervals [3]:
            xmin = 0.250000
            xmax = 0.300000
            text = "B"
        intervals [4]:
            xmin = 0.300000
            xmax = 0.500000
            text = ""
)");
  EXPECT_EQ(ToCtm(speech, "u", CtmLabels::kPhones, "A"), "u A 0.000 0.100 SIL\nu A 0.100 0.150 A\nu A 0.250 0.050 B\n");
  EXPECT_EQ(ToJson(speech),
            R"({"words":[{"word":"a\"b","start":0.1,"end":0.3,"phones":[{"phone":"A","start":0.1,"end":0.25},)"
            R"({"phone":"B","start":0.25,"end":0.3}]}],"duration":0.5,"log_likelihood":0.0,"retried":false,)"
            R"("unknown_words":[],"unaligned":[]})");
}

}  // namespace
}  // namespace antiphon
