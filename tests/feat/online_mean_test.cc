#include "feat/online_mean.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "feat/front_end.h"

namespace antiphon::feat {
namespace {

constexpr int kDim = 3;

Matrix Frames(int count, int first = 0) {
  Matrix frames(count, kDim);
  for (int t = 0; t < count; ++t) {
    for (int d = 0; d < kDim; ++d) frames(t, d) = static_cast<float>(std::sin(0.7 * (t + first) + d) + 2 * d);
  }
  return frames;
}

// As the header defines it, frame by frame.
double Expected(const Matrix& frames, int t, int d, const OnlineMeanOptions& o, const SpeakerMean& speaker) {
  double sum = 0, count = 0;
  for (int i = std::max(0, t - o.window + 1); i <= t; ++i, ++count) sum += static_cast<double>(frames(i, d));
  const double of_speaker = std::min(speaker.frames, o.window - count);
  if (of_speaker > 0) sum += of_speaker * speaker.sum[static_cast<size_t>(d)] / speaker.frames;
  count += of_speaker;
  const double of_prior = std::min<double>(o.prior_frames, o.window - count);
  return static_cast<double>(frames(t, d)) - (sum + of_prior * o.prior[static_cast<size_t>(d)]) / (count + of_prior);
}

TEST(OnlineMean, IsTheMeanOfTheWindowFilledUpBySpeakerAndPrior) {
  const OnlineMeanOptions options{.window = 20, .prior_frames = 8, .prior = {0.5, -1, 4}};
  for (const double known : {0.0, 5.0, 300.0}) {
    SpeakerMean speaker;
    if (known > 0) speaker = {.frames = known, .sum = {known * 0.3, known * 2, known * -1}};
    const Matrix frames = Frames(50);
    Matrix out = frames;
    OnlineMean mean(options, speaker);
    mean.TakeOut(out);
    for (int t = 0; t < 50; ++t) {
      for (int d = 0; d < kDim; ++d) ASSERT_NEAR(out(t, d), Expected(frames, t, d, options, speaker), 1e-5) << t;
    }
  }
}

TEST(OnlineMean, DoesNotDependOnHowTheFramesAreCut) {
  const OnlineMeanOptions options{.window = 20, .prior_frames = 8, .prior = {0.5, -1, 4}};
  Matrix whole = Frames(70);
  OnlineMean(options).TakeOut(whole);
  for (const int piece : {1, 7, 33}) {
    Matrix cut = Frames(70);
    OnlineMean mean(options);
    for (int t = 0; t < 70; t += piece) mean.TakeOut(MatrixView(cut.Row(t).data(), std::min(piece, 70 - t), kDim));
    for (int64_t i = 0; i < whole.size(); ++i) ASSERT_EQ(cut.data()[i], whole.data()[i]);
  }
}

TEST(OnlineMean, HandsOnWhatItKnowsOfTheSpeaker) {
  const OnlineMeanOptions options{.window = 20, .prior_frames = 8, .prior = {0.5, -1, 4}};
  OnlineMean mean(options);
  EXPECT_EQ(mean.speaker().frames, 0);
  const Matrix first = Frames(12), second = Frames(15, 100);
  Matrix a = first, b = second;
  mean.TakeOut(a);
  const SpeakerMean known = mean.speaker();
  EXPECT_EQ(known.frames, 12);
  for (int d = 0; d < kDim; ++d) {
    double sum = 0;
    for (int t = 0; t < 12; ++t) sum += static_cast<double>(first(t, d));
    EXPECT_NEAR(known.sum[static_cast<size_t>(d)], sum, 1e-6);
  }
  OnlineMean next(options, known);
  next.TakeOut(b);
  EXPECT_NEAR(b(0, 0), Expected(second, 0, 0, options, known), 1e-5);
  // Fifteen frames of its own, the window's other five of the speaker's.
  EXPECT_EQ(next.speaker().frames, 20);
}

TEST(OnlineMean, InTheFrontEndIsTheSameInPiecesAndNeedsAPriorOfItsDimension) {
  FrontEndOptions options;
  options.sample_rate_hz = 8000;
  options.ceps = options.mel_bins = 13;
  const FrontEnd plain(options);
  options.mean_window = 30;
  options.mean_prior_frames = 10;
  EXPECT_THROW(FrontEnd{options}, UsageError);
  options.mean_prior.assign(13, 1.5);
  const FrontEnd front_end(options);
  std::vector<float> samples(8000);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(8000 * std::sin(0.001 * static_cast<double>(i * i % 7919)));
  }
  const Matrix whole = front_end.Compute(samples);
  Matrix expected = plain.Compute(samples);
  OnlineMean({.window = 30, .prior_frames = 10, .prior = options.mean_prior}).TakeOut(expected);
  ASSERT_EQ(whole.rows(), expected.rows());
  for (int64_t i = 0; i < whole.size(); ++i) ASSERT_EQ(whole.data()[i], expected.data()[i]);
  FrontEndStream stream(front_end);
  int64_t row = 0;
  for (size_t begin = 0; begin < samples.size(); begin += 333) {
    stream.Accept(std::span(samples).subspan(begin, std::min<size_t>(333, samples.size() - begin)));
    const Matrix part = stream.Take();
    for (int64_t r = 0; r < part.rows(); ++r, ++row) {
      for (int64_t d = 0; d < part.cols(); ++d) ASSERT_EQ(part(r, d), whole(row, d));
    }
  }
  stream.Finish();
  EXPECT_EQ(row + stream.frames_ready(), whole.rows());
}

}  // namespace
}  // namespace antiphon::feat
