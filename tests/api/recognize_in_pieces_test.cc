#include "decode/search/recognize_in_pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "antiphon/recognizer.h"
#include "api/two_words.h"
#include "data/compressed_matrix.h"
#include "decode/search/matrix_scores.h"
#include "feat/audio.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"
#include "pipeline/acoustic_model.h"

namespace antiphon {
namespace {

using testing::Noise;

// Some words, a pause now and then.
class InPieces : public ::testing::TestWithParam<bool> {
 protected:
  struct Heard {
    std::vector<int32_t> words;
    std::vector<int> begin_frames;
    std::vector<decode::Piece> pieces;
  };

  Matrix Features(int samples) const {
    const feat::FrontEnd front_end(ReadOptions<feat::FrontEndOptions>(Config::Parse(model_->features(), "model")));
    Matrix frames = front_end.Compute(Noise(samples));
    feat::NormalizeUtterance(frames, false);
    return frames;
  }

  // `chunk` frames at a time.
  Heard Hear(const Matrix& features, const decode::PieceOptions& options, int64_t chunk) {
    decode::Recognizer recognizer(graph_, model_->hmm(), recognize_);
    decode::JoinPieces whole(recognize_.nbest);
    Heard heard;
    decode::RecognizeInPieces pieces(recognizer, options, kWeights, 0.01, [&](decode::Piece&& piece) {
      whole.Add(piece, kWeights);
      heard.pieces.push_back(std::move(piece));
    });
    const auto scores = model_->Stream(nullptr, nullptr);
    for (int64_t begin = 0; begin < features.rows(); begin += chunk) {
      const int64_t count = std::min(chunk, features.rows() - begin);
      scores->Accept(features.view().Rows(begin, count), begin + count == features.rows());
      pieces.Advance(*scores);
    }
    pieces.Finish(*scores);
    const decode::Recognition all = whole.Take(0.01);
    EXPECT_EQ(all.num_frames, features.rows());
    EXPECT_EQ(all.confidences.size(), all.best.words.size());
    EXPECT_EQ(all.times.words.size(), all.best.words.size());
    heard.words = all.best.words;
    for (const decode::TimedWord& word : all.times.words) heard.begin_frames.push_back(word.begin_frame);
    return heard;
  }

  Heard HearWhole(const Matrix& features) {
    decode::Recognizer recognizer(graph_, model_->hmm(), recognize_);
    const decode::Recognition whole = recognizer.Recognize(*model_->Score(features), kWeights);
    Heard heard{whole.best.words, {}, {}};
    for (const decode::TimedWord& word : whole.times.words) heard.begin_frames.push_back(word.begin_frame);
    return heard;
  }

  static constexpr decode::LatticeWeights kWeights{0.1, 0.0};
  const testing::TwoWords system_{true};
  const std::unique_ptr<AcousticModel> model_ = AcousticModel::Load(
      system_.folder / (GetParam() ? "net.safetensors" : "gmm.safetensors"), infer::NnetScorerOptions());
  const decode::Graph graph_ = decode::Graph::Load(system_.folder / "graph", system_.gmm.hmm);
  decode::RecognizeOptions recognize_;
};
INSTANTIATE_TEST_SUITE_P(GaussiansAndNetwork, InPieces, ::testing::Bool());

// No silence in the noise is long enough for the rules: it is cut between words. Nothing in noise is said for certain,
// so that what is found beside a cut may differ, but by a word for each cut at most (tests/program has real words).
TEST_P(InPieces, WordsAcrossCutsStayMostlyAsTheyAre) {
  const Matrix features = Features(8000 * 40);
  decode::PieceOptions options;
  options.cut_silence_s = 60;
  options.max_piece_s = 3;
  const Heard whole = HearWhole(features), heard = Hear(features, options, 500);
  EXPECT_GE(heard.pieces.size(), 8U);
  EXPECT_GE(whole.words.size(), 20U);
  std::vector<int> common;
  std::set_intersection(heard.begin_frames.begin(), heard.begin_frames.end(), whole.begin_frames.begin(),
                        whole.begin_frames.end(), std::back_inserter(common));
  EXPECT_GE(common.size() + heard.pieces.size() - 1, whole.words.size());
  EXPECT_GE(common.size() + heard.pieces.size() - 1, heard.words.size());
  int64_t end = 0;
  for (const decode::Piece& piece : heard.pieces) {
    EXPECT_EQ(piece.begin_frame, end);
    end += piece.num_frames;
    EXPECT_LE(piece.num_frames, 600);
    EXPECT_EQ(static_cast<int>(piece.recognition.best.alignment.size()), piece.num_frames);
  }
  EXPECT_EQ(end, features.rows());
}

TEST_P(InPieces, CutsDoNotDependOnHowFramesCome) {
  const Matrix features = Features(8000 * 20);
  decode::PieceOptions options;
  options.cut_silence_s = 0.1;
  options.max_piece_s = 4;
  const Heard first = Hear(features, options, features.rows());
  EXPECT_GE(first.pieces.size(), 4U);
  for (const int64_t chunk : {1, 19, 300}) {
    const Heard heard = Hear(features, options, chunk);
    EXPECT_EQ(heard.words, first.words);
    EXPECT_EQ(heard.begin_frames, first.begin_frames);
    ASSERT_EQ(heard.pieces.size(), first.pieces.size());
    for (size_t i = 0; i < heard.pieces.size(); ++i) {
      EXPECT_EQ(heard.pieces[i].begin_frame, first.pieces[i].begin_frame);
      EXPECT_EQ(heard.pieces[i].recognition.confidences, first.pieces[i].recognition.confidences);
    }
  }
}

TEST_P(InPieces, HypothesesOfTheWholeAreTheCheapestOfAllPieces) {
  recognize_.nbest = 5;
  const Matrix features = Features(8000 * 9);
  decode::PieceOptions options;
  options.max_piece_s = 3;
  decode::Recognizer recognizer(graph_, model_->hmm(), recognize_);
  decode::JoinPieces whole(recognize_.nbest);
  std::vector<double> sums = {0.0};
  const auto cost = [&](const decode::LatticePath& path) { return path.cost.Total(kWeights.acoustic_scale); };
  decode::RecognizeInPieces pieces(recognizer, options, kWeights, 0.01, [&](decode::Piece&& piece) {
    std::vector<double> next;
    for (const double sum : sums) {
      for (const decode::LatticePath& path : piece.recognition.nbest) next.push_back(sum + cost(path));
    }
    sums = next;
    whole.Add(piece, kWeights);
  });
  pieces.Finish(*model_->Score(features));
  const decode::Recognition all = whole.Take(0.01);
  std::sort(sums.begin(), sums.end());
  ASSERT_EQ(all.nbest.size(), 5U);
  EXPECT_EQ(all.nbest[0].words, all.best.words);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(cost(all.nbest[i]), sums[i], 1e-3);
}

// A second that no hypothesis survives costs the words around it, not those of the whole recording.
TEST_P(InPieces, ALostPieceIsNotTheWhole) {
  const Matrix features = Features(8000 * 12);
  const auto source = model_->Score(features);
  Matrix scores(features.rows(), source->num_pdfs());
  for (int t = 0; t < features.rows(); ++t) {
    for (int s = 0; s < scores.cols(); ++s) scores(t, s) = t == 600 ? NAN : source->LogLikelihood(t, s);
  }
  decode::PieceOptions options;
  options.max_piece_s = 3;
  decode::Recognizer recognizer(graph_, model_->hmm(), recognize_);
  decode::JoinPieces whole(0);
  int lost = 0;
  decode::RecognizeInPieces pieces(recognizer, options, kWeights, 0.01, [&](decode::Piece&& piece) {
    lost += piece.lost ? 1 : 0;
    whole.Add(piece, kWeights);
  });
  decode::MatrixScores broken(std::move(scores));
  pieces.Finish(broken);
  const decode::Recognition all = whole.Take(0.01);
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(all.num_frames, features.rows());
  EXPECT_NE(all.remark.find("1 pieces are lost"), std::string::npos) << all.remark;
  EXPECT_LT(all.times.words.front().begin_frame, 300);
  EXPECT_GT(all.times.words.back().begin_frame, 900);
}

// The public interface: in one piece up to half a minute, in several above.
TEST_P(InPieces, LongFilesAreRecognisedLikeShortOnes) {
  const std::string name = (system_.folder / (GetParam() ? "net.safetensors" : "gmm.safetensors")).string();
  const Recognizer recognizer(name, (system_.folder / "graph").string(), {.adapt_passes = 0});
  for (const int seconds : {8, 70}) {
    feat::Waveform wave{Noise(8000 * seconds), 8000};
    for (float& x : wave.samples) x = std::clamp(std::round(x), -32768.0F, 32767.0F);
    feat::WriteWav(system_.folder / "noise.wav", wave);
    const feat::FrontEnd front_end(ReadOptions<feat::FrontEndOptions>(Config::Parse(model_->features(), "model")));
    Matrix frames = front_end.Compute(wave.samples);
    feat::CmvnStats stats;
    stats.Add(frames);
    frames = data::AsStored(frames, data::MatrixCoding::kColumns8);
    stats.Apply(frames, false);
    std::string expected;
    for (const int32_t word : seconds > 30 ? Hear(frames, {}, 100000).words : HearWhole(frames).words)
      expected += (expected.empty() ? "" : " ") + graph_.words()[static_cast<size_t>(word)];
    EXPECT_EQ(recognizer.RecognizeFile((system_.folder / "noise.wav").string()).text, expected);
    for (float& x : wave.samples) x /= 32768;
    EXPECT_EQ(recognizer.Recognize(wave.samples, 8000).text, expected);
  }
}

TEST_P(InPieces, NoWordsAreFoundInZeros) {
  const std::string name = (system_.folder / (GetParam() ? "net.safetensors" : "gmm.safetensors")).string();
  const Recognizer recognizer(name, (system_.folder / "graph").string());
  for (const int seconds : {2, 40}) {
    const Recognition nothing = recognizer.Recognize(std::vector<float>(static_cast<size_t>(8000 * seconds)), 8000);
    EXPECT_EQ(nothing.text, "");
    EXPECT_NE(nothing.remark.find("all samples are the same"), std::string::npos) << nothing.remark;
  }
}

// Below 30 s in one piece, above in several. What is said before is no less said.
TEST_P(InPieces, ZerosBetweenAndBehindWordsHaveNone) {
  const std::string name = (system_.folder / (GetParam() ? "net.safetensors" : "gmm.safetensors")).string();
  const Recognizer recognizer(name, (system_.folder / "graph").string());
  for (const int seconds : {8, 40}) {
    std::vector<float> samples(static_cast<size_t>(8000 * seconds));
    const std::vector<float> speech = Noise(8000);
    std::ranges::copy(speech, samples.begin());
    std::ranges::copy(speech, samples.begin() + std::ssize(samples) / 2);
    const Recognition heard = recognizer.Recognize(samples, 8000);
    EXPECT_FALSE(heard.words.empty());
    EXPECT_EQ(heard.remark.find("all samples are the same"), std::string::npos) << heard.remark;
    for (const RecognizedWord& word : heard.words) {
      const bool first = word.start_s < 1.0, second = word.start_s < seconds / 2.0 + 1 && word.end_s > seconds / 2.0;
      EXPECT_TRUE(first || second) << word.word << " from " << word.start_s << " to " << word.end_s;
    }
  }
}

}  // namespace
}  // namespace antiphon
