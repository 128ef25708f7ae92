#include "pipeline/recording_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/feature_parts.h"

namespace antiphon::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A file of as many seconds as somebody has written by now.
class RecordingThatChanges : public ::testing::Test {
 protected:
  static constexpr int kRate = 8000;
  static constexpr int kLong = static_cast<int>(data::kLongRecordingS) + 3;

  RecordingFeatures Open() {
    feat::FrontEndOptions options;
    options.sample_rate_hz = kRate;
    options.mel_bins = 23;
    options.ceps = 13;
    Rng rng(1);
    std::vector<float> second(kRate);
    for (float& sample : second) sample = static_cast<float>(100 * rng.Normal());
    const data::AudioPieces audio = [this, second](const auto& sink) {
      for (int s = 0; s < seconds_; ++s) sink(second);
    };
    return RecordingFeatures(feat::FrontEnd(options), audio, kRate, {});
  }
  // Empty if all goes well.
  template <class F>
  static std::string ErrorOf(const F& f) {
    try {
      f();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  int seconds_ = kLong;
};

TEST_F(RecordingThatChanges, OneThatDoesNotIsReadAsOftenAsItIsAskedFor) {
  RecordingFeatures features = Open();
  ASSERT_GT(features.num_frames(), 2 * data::kPartFrames);
  for (int time = 0; time < 2; ++time) {
    const Matrix whole = features.Whole();
    ASSERT_EQ(whole.rows(), features.num_frames());
    int64_t at = 0;
    bool ended = false;
    features.InParts([&](Matrix&& part, bool last) {
      EXPECT_FALSE(ended);
      ended = last;
      ASSERT_LE(at + part.rows(), whole.rows());
      EXPECT_TRUE(std::equal(part.data(), part.data() + part.size(), whole.Row(at).data()));
      at += part.rows();
    });
    EXPECT_TRUE(ended);
    EXPECT_EQ(at, whole.rows());
  }
}

TEST_F(RecordingThatChanges, IsRefusedWhenItGrewOrShrank) {
  RecordingFeatures features = Open();
  const auto says = AllOf(HasSubstr("the recording changed while it was read"),
                          HasSubstr(std::to_string(features.num_frames()) + " frames at first"));
  // Within the last part, by parts, and to nothing.
  for (const int now : {kLong + 1, kLong + 200, kLong - 1, 70, 0}) {
    SCOPED_TRACE(now);
    seconds_ = now;
    EXPECT_THAT(ErrorOf([&] { features.Whole(); }), says);
    int64_t used = 0;
    bool ended = false;
    const auto use = [&](Matrix&& part, bool last) {
      used += part.rows();
      ended = ended || last;
    };
    EXPECT_THAT(ErrorOf([&] { features.InParts(use); }), says);
    EXPECT_FALSE(ended) << "the last part of another recording";
    EXPECT_LE(used, features.num_frames());
  }
  seconds_ = kLong;
  EXPECT_EQ(ErrorOf([&] { features.Whole(); }), "");
}

// It was read once, and is kept.
TEST_F(RecordingThatChanges, AShortOneIsReadOnce) {
  seconds_ = 2;
  RecordingFeatures features = Open();
  seconds_ = 3;
  EXPECT_EQ(features.Whole().rows(), features.num_frames());
  seconds_ = 0;
  features.InParts([&](Matrix&& part, bool last) {
    EXPECT_TRUE(last);
    EXPECT_EQ(part.rows(), features.num_frames());
  });
}

}  // namespace
}  // namespace antiphon::pipeline
