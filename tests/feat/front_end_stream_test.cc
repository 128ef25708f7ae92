// The frames of a stream are those of the whole, bit by bit, however the audio is cut.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstring>

#include "feat/front_end.h"
#include "reference.h"

namespace antiphon::feat {
namespace {

FrontEndOptions RandomOptions() {
  const auto kind = *rc::gen::element<std::string>("fbank", "mfcc", "plp");
  const int rate = *rc::gen::element(8000, 11025, 16000, 44100);
  FrontEndOptions options = FrontEndOptions::Standard(kind, rate);
  options.mel_bins = 16;
  options.use_energy = *rc::gen::arbitrary<bool>();
  options.snip_edges = *rc::gen::arbitrary<bool>();
  options.dither = *rc::gen::element(0.0, 1.0);
  options.pitch_dim = *rc::gen::element(0, 0, 1, 3);
  options.delta_order = *rc::gen::inRange(0, 3);
  options.delta_window = *rc::gen::inRange(1, 4);
  return options;
}

bool SameBits(const Matrix& a, const Matrix& b, int64_t b_row) {
  return a.rows() == 0 ||
         std::memcmp(a.data(), b.Row(b_row).data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

TEST(FrontEndStream, EqualsOfflineHoweverCut) {
  const bool holds = rc::check([] {
    const FrontEnd front_end(RandomOptions());
    const auto n = *rc::gen::element<int64_t>(0, 1, 70, 81, 150, 399, 400, 401, 3000, 12345);
    const std::vector<float> x = WhiteNoise(n, 1000, static_cast<uint64_t>(*rc::gen::inRange(0, 100)));
    const Matrix whole = front_end.Compute(x, 7);
    RC_ASSERT(whole.rows() == front_end.NumFrames(n));
    FrontEndStream stream(front_end, 7);
    const int largest = *rc::gen::element(1, 37, 500, 5000);
    Rng rng(static_cast<uint64_t>(*rc::gen::inRange(0, 1000)));
    int64_t row = 0;
    const auto take = [&](int64_t most) {
      const int64_t ready = stream.frames_ready();
      const Matrix frames = stream.Take(most);
      RC_ASSERT(frames.rows() == std::min(ready, most));
      RC_ASSERT(row + frames.rows() <= whole.rows());
      RC_ASSERT(SameBits(frames, whole, row));
      row += frames.rows();
    };
    for (int64_t at = 0; at < n;) {
      const int64_t step =
          std::min<int64_t>(n - at, 1 + static_cast<int64_t>(rng.Below(static_cast<uint64_t>(largest))));
      stream.Accept({x.data() + at, static_cast<size_t>(step)});
      at += step;
      if (rng.Below(3) == 0) take(static_cast<int64_t>(rng.Below(20)));
    }
    stream.Finish();
    take(INT64_MAX);
    RC_ASSERT(row == whole.rows());
    RC_ASSERT(stream.frames_ready() == 0);
  });
  EXPECT_TRUE(holds);
}

TEST(FrontEndStream, LongSignalsForgetWhatIsUsed) {
  FrontEndOptions options = FrontEndOptions::Standard("mfcc");
  options.snip_edges = false;
  options.delta_order = 2;
  const FrontEnd front_end(options);
  const std::vector<float> x = WhiteNoise(300000, 1000, 5);
  const Matrix whole = front_end.Compute(x);
  FrontEndStream stream(front_end);
  int64_t row = 0;
  for (size_t at = 0; at < x.size(); at += 1000) {
    stream.Accept({x.data() + at, std::min<size_t>(1000, x.size() - at)});
    const Matrix frames = stream.Take();
    ASSERT_TRUE(SameBits(frames, whole, row));
    row += frames.rows();
  }
  stream.Finish();
  const Matrix rest = stream.Take();
  ASSERT_TRUE(SameBits(rest, whole, row));
  EXPECT_EQ(row + rest.rows(), whole.rows());
}

TEST(FrontEndStream, HandsFramesOutAsSoonAsTheyAreFinal) {
  FrontEndOptions options = FrontEndOptions::Standard("fbank");
  FrontEndStream plain{FrontEnd(options)};
  options.delta_order = 2;
  FrontEndStream deltas{FrontEnd(options)};
  const std::vector<float> x = WhiteNoise(400 + 9 * 160, 100, 1);
  plain.Accept(x);
  deltas.Accept(x);
  EXPECT_EQ(plain.frames_ready(), 10);
  EXPECT_EQ(deltas.frames_ready(), 6);
}

}  // namespace
}  // namespace antiphon::feat
