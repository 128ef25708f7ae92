#include "api/live_recognizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "decode/graph_builder.h"
#include "hmm/graph/openfst.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

constexpr int kCeps = 5;

// Two words in any order, on a network of random weights behind a GMM's transform or alone.
class Live : public ::testing::TestWithParam<bool> {
 protected:
  Live() {
    nn::Model model;
    model.feature_config = "kind = 'mfcc'\nsample-rate = 8000\nmel-bins = 10\nceps = 5\ndither = 0.0\n";
    model.feature_dim = GetParam() ? 3 * kCeps : kCeps;
    model.left_context = 2;
    model.right_context = 3;
    model.network = nn::Network(
        Config::Parse("layer = [{type = 'affine', dim = 12, init-scale = 3.0}, {type = 'sigmoid'}, {type = 'affine', "
                      "init-scale = 20.0}]",
                      "net.toml"),
        6 * model.feature_dim, hmm_.num_pdfs(), 7);
    model.hmm_json = hmm_.ToJson();
    model.log_priors.assign(static_cast<size_t>(hmm_.num_pdfs()), -1.0F);
    if (GetParam()) {
      gmm_.Save(folder_ / "gmm.safetensors");
      const MappedFile file(folder_ / "gmm.safetensors");
      model.speaker_model.assign(file.bytes().begin(), file.bytes().end());
    }
    model.Save(folder_ / "net.safetensors");
    infer::NnetScorerOptions options;
    options.precision = "int8";
    model_ = AcousticModel::Load(folder_ / "net.safetensors", options);

    hmm::LexiconOptions lexicon_options;
    lexicon_options.silence_phones = {"SIL"};
    lexicon_options.position_dependent = false;
    const hmm::Lexicon lexicon = hmm::Lexicon::Parse("ONE A\nTWO B\n", "lexicon.txt", lexicon_options);
    fst::StdVectorFst grammar;
    grammar.AddState();
    grammar.SetStart(0);
    grammar.SetFinal(0, 0.5F);
    for (int32_t word = 1; word <= 2; ++word) grammar.AddArc(0, {word, word, 1.0F, 0});
    fst::StdVectorFst fst;
    decode::BuildGraphFst(hmm_, lexicon, grammar, {}, &fst);
    decode::SaveGraph(fst, hmm_, lexicon, "two words", {}, folder_ / "graph");
    graph_.emplace(decode::Graph::Load(folder_ / "graph", hmm_));
  }

  static std::vector<float> Noise(int samples) {
    Rng rng(9);
    std::vector<float> audio(static_cast<size_t>(samples));
    double state = 0;
    for (size_t i = 0; i < audio.size(); ++i) {
      // Loud and soft parts of changing colour.
      state = (0.5 + 0.4 * std::sin(static_cast<double>(i) / 3000)) * state + rng.Normal();
      audio[i] = static_cast<float>(2000 * (1 + std::sin(static_cast<double>(i) / 1500)) * state);
    }
    return audio;
  }

  // All that is reported, as text to the last bit.
  std::vector<std::string> Run(const std::vector<float>& audio, uint64_t seed, const LiveOptions& options) {
    std::vector<std::string> reports;
    LiveRecognizer live(*model_, *graph_, recognize_, {0.1, 0.0}, options, [&](const LiveResult& result) {
      std::string text = fmt::format("{} {} {}:", result.final, result.begin_frame, result.num_frames);
      const auto& words = result.final ? result.recognition.best.words : result.partial.words;
      for (const int32_t word : words) text += fmt::format(" {}", word);
      if (result.final) {
        for (const auto& timed : result.recognition.times.words) text += fmt::format(" @{}", timed.begin_frame);
        for (const auto& state : result.recognition.lattice.states) {
          for (const auto& arc : state.arcs) {
            text += fmt::format(" [{} {} {} {}]", arc.next_state, arc.word, arc.cost.graph, arc.cost.acoustic);
          }
        }
      }
      reports.push_back(std::move(text));
    });
    Rng rng(seed);
    for (size_t at = 0; at < audio.size();) {
      const size_t most = seed == 0 ? audio.size() : (seed % 2 == 0 ? 50 : 5000);
      const size_t count = std::min(audio.size() - at, seed == 0 ? most : static_cast<size_t>(rng.Below(most)));
      live.Accept(std::span(audio).subspan(at, count));
      at += count;
    }
    live.Finish();
    return reports;
  }

  const testing::TemporaryFolder folder_;
  const hmm::GmmModel gmm_ = testing::SmallAdaptiveModel(kCeps);
  const hmm::HmmModel hmm_ = gmm_.hmm;
  std::unique_ptr<AcousticModel> model_;
  std::optional<decode::Graph> graph_;
  decode::RecognizeOptions recognize_;
};

TEST_P(Live, GivesTheSameResultsHoweverTheAudioIsCut) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;  // so that there are several utterances
  for (const int samples : {0, 100, 799, 30000}) {
    const std::vector<float> audio = Noise(samples);
    const auto whole = Run(audio, 0, options);
    for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), whole) << samples;
    int finals = 0;
    for (const std::string& report : whole) finals += report.starts_with("true") ? 1 : 0;
    if (samples == 30000) {
      EXPECT_GE(finals, 3);
      EXPECT_GT(std::ssize(whole), finals);
    } else {
      EXPECT_LE(finals, 1);
    }
  }
}

TEST_P(Live, WithHotwordsToo) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  const std::vector<float> audio = Noise(12000);
  const auto plain = Run(audio, 0, options);
  WriteFileAtomically(folder_ / "hot", "TWO TWO\t6\n");
  recognize_.bias.hotwords = (folder_ / "hot").string();
  const auto preferred = Run(audio, 0, options);
  EXPECT_NE(preferred, plain);
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), preferred);
  WriteFileAtomically(folder_ / "list", "ONE\n");
  recognize_.bias = {.hotwords = "", .hotword_bonus = 0, .word_list = (folder_ / "list").string()};
  for (const std::string& report : Run(audio, 3, options)) {
    EXPECT_EQ(report.substr(0, report.find_first_of("@[")).find(": 2"), std::string::npos) << report;
  }
}

// Bad audio says what is wrong with it, and costs no utterance that follows.
TEST_P(Live, GoesOnAfterSilenceClippingAndHalfAFrame) {
  LiveOptions options;
  int finals = 0;
  LiveRecognizer live(*model_, *graph_, {}, {0.1, 0.0}, options,
                      [&](const LiveResult& result) { finals += result.final ? 1 : 0; });
  live.Accept(std::vector<float>(8000, 0.0F));
  live.Finish();
  ASSERT_EQ(live.AudioRemarks().size(), 1U);
  EXPECT_NE(live.AudioRemarks()[0].find("muted"), std::string::npos);
  std::vector<float> loud = Noise(8000);
  for (float& x : loud) x = std::clamp(100 * x, -32768.0F, 32767.0F);
  live.Accept(loud);
  live.Accept(std::vector<float>(37, 5.0F));  // less than a frame
  live.Finish();
  ASSERT_EQ(live.AudioRemarks().size(), 1U);
  EXPECT_NE(live.AudioRemarks()[0].find("clipped"), std::string::npos);
  finals = 0;
  live.Accept(Noise(8000));
  live.Finish();
  EXPECT_GE(finals, 1);
}

// Without its mean, silence is like the mean of speech, in which any network hears something.
TEST_P(Live, FindsNoWordsInNothingButZeros) {
  LiveOptions options;
  options.cmvn.min_window = 30;
  options.max_utterance_s = 0.9;
  std::vector<float> audio(20000, 0.0F);
  for (uint64_t seed = 0; seed <= 2; ++seed) {
    for (const std::string& report : Run(audio, seed, options)) EXPECT_TRUE(report.ends_with(":")) << report;
  }
  const std::vector<float> sound = Noise(20000);
  audio.insert(audio.end(), sound.begin(), sound.end());
  const auto whole = Run(audio, 0, options);
  EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [](const std::string& r) { return !r.ends_with(":"); }));
  for (uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(Run(audio, seed, options), whole);
}

TEST(AudioCheck, TellsQuietLoudAndNarrowAudioFromGood) {
  feat::AudioCheck nothing, good, quiet;
  EXPECT_EQ(nothing.Remarks().size(), 1U);
  good.Accept(std::vector<float>{100, -8000, 32767, 5, 32767});  // single peaks are no clipping
  EXPECT_TRUE(good.Remarks().empty());
  quiet.Accept(std::vector<float>{3, -4, 5});
  EXPECT_EQ(quiet.Remarks().size(), 1U);
  // A run that is cut into pieces.
  feat::AudioCheck clipped;
  clipped.Accept(std::vector<float>{1, 32767});
  clipped.Accept(std::vector<float>{32767, 32767, 2});
  EXPECT_NEAR(clipped.clipped_share(), 0.6, 1e-9);
  EXPECT_EQ(feat::NarrowBandRemark(16000, 16000), "");
  EXPECT_NE(feat::NarrowBandRemark(8000, 16000).find("4000 Hz"), std::string::npos);
}

TEST_P(Live, StartsAnewAfterTheEnd) {
  LiveOptions options;
  const std::vector<float> audio = Noise(8000);
  std::vector<std::string> texts;
  LiveRecognizer live(*model_, *graph_, {}, {0.1, 0.0}, options, [&](const LiveResult& result) {
    if (result.final)
      texts.push_back(fmt::format("{} {}", result.begin_frame, fmt::join(result.recognition.best.words, " ")));
  });
  for (int i = 0; i < 2; ++i) {
    live.Accept(audio);
    live.Finish();
  }
  ASSERT_EQ(texts.size() % 2, 0U);
  EXPECT_TRUE(std::equal(texts.begin(), texts.begin() + std::ssize(texts) / 2, texts.begin() + std::ssize(texts) / 2));
  const std::vector<float> bad(400, NAN);
  EXPECT_THROW(live.Accept(bad), InputError);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutTransform, Live, ::testing::Bool());

}  // namespace
}  // namespace antiphon
