#include "feat/pitch.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"

namespace antiphon::feat {
namespace {

constexpr int kLowRateHz = 4000;
constexpr float kLowpassCutoffHz = 1000.0f;
constexpr int kLowpassZeros = 1;
constexpr int kInterpolationZeros = 5;
constexpr float kSoftMinF0 = 10.0f;
constexpr float kPenaltyFactor = 0.1f;
constexpr float kLagRatio = 0.005f;  // minus one
constexpr double kBallast = 7000.0;
constexpr double kTwoPi = 2.0 * std::numbers::pi;
// Frames between looks at whether all paths have met.
constexpr int64_t kCommitFrames = 1024;

// A sinc low-pass under a raised cosine.
float Sinc(float t, float cutoff_hz, int zeros) {
  if (std::fabs(t) >= zeros / (2.0 * cutoff_hz)) return 0.0f;
  const auto window = static_cast<float>(0.5 * (1 + std::cos(kTwoPi * cutoff_hz / zeros * t)));
  const auto filter =
      static_cast<float>(t != 0 ? std::sin(kTwoPi * cutoff_hz * t) / (std::numbers::pi * t) : 2.0 * cutoff_hz);
  return filter * window;
}

// The order of the sum does not depend on where the filter stands.
float Dot(const std::vector<float>& weights, const float* x) {
  float sum[4] = {0, 0, 0, 0};
  const size_t n = weights.size();
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (size_t j = 0; j < 4; ++j) sum[j] += weights[i + j] * x[i + j];
  }
  for (; i < n; ++i) sum[0] += weights[i] * x[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Backpointers of the frames whose best path is still open, and the path where it is settled.
class Traceback {
 public:
  explicit Traceback(int num_states) : num_states_(static_cast<size_t>(num_states)) {}

  std::span<uint16_t> NewFrame() {
    from_.resize(from_.size() + num_states_);
    return {from_.data() + from_.size() - num_states_, num_states_};
  }
  // Backpointers rise with the state, so the paths from the outermost states enclose all others: where those two meet,
  // every path goes through one state, and what lies before is settled.
  void Commit() {
    size_t low = 0, high = num_states_ - 1, frame = from_.size() / num_states_;
    while (frame > 0 && low != high) {
      --frame;
      low = from_[frame * num_states_ + low];
      high = from_[frame * num_states_ + high];
    }
    if (frame > 0) Settle(frame, low);
  }
  // State per frame, given the last frame's.
  std::vector<int> Finish(size_t state) && {
    if (!from_.empty()) {
      const size_t last = from_.size() / num_states_ - 1;
      const size_t before = from_[last * num_states_ + state];
      if (last > 0) Settle(last, before);
      path_.push_back(static_cast<int>(state));
    }
    return std::move(path_);
  }

 private:
  // `state` is that of open frame `frame` − 1; forgets the first `frame` open frames.
  void Settle(size_t frame, size_t state) {
    const size_t settled = path_.size();
    path_.resize(settled + frame);
    for (size_t f = frame; f-- > 0;) {
      path_[settled + f] = static_cast<int>(state);
      state = from_[f * num_states_ + state];
    }
    from_.erase(from_.begin(), from_.begin() + static_cast<std::ptrdiff_t>(frame * num_states_));
  }

  size_t num_states_;
  std::vector<uint16_t> from_;  // state of the frame before, open frames × states
  std::vector<int> path_;
};

}  // namespace

PitchTracker::PitchTracker(const FrontEndOptions& options)
    : sample_rate_hz_(options.sample_rate_hz),
      snip_edges_(options.snip_edges),
      window_(static_cast<int>(kLowRateHz * options.frame_length_ms / 1000.0)),
      shift_(static_cast<int>(kLowRateHz * options.frame_shift_ms / 1000.0)) {
  if (options.min_pitch_hz >= options.max_pitch_hz || options.max_pitch_hz > kLowpassCutoffHz) {
    Throw<UsageError>("pitch from {} to {} Hz cannot be searched; expected min-pitch-hz < max-pitch-hz ≤ {}",
                      options.min_pitch_hz, options.max_pitch_hz, kLowpassCutoffHz);
  }
  if (sample_rate_hz_ < 2 * kLowpassCutoffHz || window_ < 2 || shift_ < 1) {
    Throw<UsageError>(
        "pitch needs a sample rate of at least {} Hz and frames of at least 1 ms; found {} Hz, {} ms every {} ms",
        2 * kLowpassCutoffHz, sample_rate_hz_, options.frame_length_ms, options.frame_shift_ms);
  }
  MakeDownsampler();
  MakeLags(options);
}

void PitchTracker::MakeDownsampler() {
  const int common = std::gcd(sample_rate_hz_, kLowRateHz);
  in_unit_ = sample_rate_hz_ / common;
  out_unit_ = kLowRateHz / common;
  const double width_s = kLowpassZeros / (2.0 * kLowpassCutoffHz);
  for (int i = 0; i < out_unit_; ++i) {
    const double time_s = i / static_cast<double>(kLowRateHz);
    const int first = static_cast<int>(std::ceil((time_s - width_s) * sample_rate_hz_));
    const int last = static_cast<int>(std::floor((time_s + width_s) * sample_rate_hz_));
    FilterPhase phase{first, {}};
    for (int j = first; j <= last; ++j) {
      const auto delta_s = static_cast<float>(j / static_cast<double>(sample_rate_hz_) - time_s);
      phase.weights.push_back(Sinc(delta_s, kLowpassCutoffHz, kLowpassZeros) / static_cast<float>(sample_rate_hz_));
    }
    phases_.push_back(std::move(phase));
  }
  reach_ = static_cast<int>(std::ceil(width_s * sample_rate_hz_)) + 1;
}

void PitchTracker::MakeLags(const FrontEndOptions& options) {
  const double margin_s = kInterpolationZeros / (2.0 * kLowRateHz);
  first_lag_ = std::max(0, static_cast<int>(std::ceil(kLowRateHz * (1.0 / options.max_pitch_hz - margin_s))));
  num_lags_ = static_cast<int>(std::floor(kLowRateHz * (1.0 / options.min_pitch_hz + margin_s))) + 1 - first_lag_;
  const auto longest_s = static_cast<float>(1.0 / options.min_pitch_hz);
  for (auto lag = static_cast<float>(1.0 / options.max_pitch_hz); lag <= longest_s;
       lag = static_cast<float>(lag * (1.0 + kLagRatio))) {
    lags_s_.push_back(lag);
  }
  const float width_s = kInterpolationZeros / static_cast<float>(kLowRateHz);
  for (size_t group = 0; group < lags_s_.size(); group += kLagLanes) {
    const size_t end = std::min(group + kLagLanes, lags_s_.size());
    const auto offset = [&](size_t state) { return lags_s_[state] - static_cast<float>(first_lag_) / kLowRateHz; };
    const int first = std::max(0, static_cast<int>(std::ceil(kLowRateHz * (offset(group) - width_s))));
    const int last = std::min(num_lags_ - 1, static_cast<int>(std::floor(kLowRateHz * (offset(end - 1) + width_s))));
    interpolation_.first.push_back(first);
    interpolation_.count.push_back(last - first + 1);
    for (int j = first; j <= last; ++j) {
      for (size_t state = group; state < group + kLagLanes; ++state) {
        const float weight = state < end ? Sinc(offset(state) - static_cast<float>(j) / kLowRateHz, kLowRateHz * 0.5f,
                                                kInterpolationZeros) /
                                               kLowRateHz
                                         : 0.0f;
        interpolation_.weights.push_back(weight);
      }
    }
  }
}

int64_t PitchTracker::NumDownsampled(int64_t num_samples) const {
  return (num_samples * out_unit_ + in_unit_ - 1) / in_unit_;
}

int64_t PitchTracker::NumFramesOf(int64_t num_downsampled) const {
  if (num_downsampled < window_) return 0;
  if (snip_edges_) return (num_downsampled - window_) / shift_ + 1;
  return (2 * num_downsampled + shift_) / (2 * shift_);
}

int64_t PitchTracker::NumFrames(int64_t num_samples) const { return NumFramesOf(NumDownsampled(num_samples)); }

int64_t PitchTracker::NumSettled(int64_t num_samples) const {
  const int64_t ticks_per_s = static_cast<int64_t>(sample_rate_hz_) * out_unit_;
  const auto reach_ticks =
      static_cast<int64_t>(kLowpassZeros / (2.0 * kLowpassCutoffHz) * static_cast<double>(ticks_per_s));
  const int64_t interval = num_samples * out_unit_ - reach_ticks;
  return interval <= 0 ? 0 : (interval + in_unit_ - 1) / in_unit_;
}

int64_t PitchTracker::NumSettledFrames(int64_t num_downsampled) const {
  const int length = window_ + first_lag_ + num_lags_ - 1;
  if (num_downsampled < length) return 0;
  if (snip_edges_) return (num_downsampled - length) / shift_ + 1;
  return (2 * (num_downsampled - length / 2) + shift_) / (2 * shift_);
}

int64_t PitchTracker::FrameStart(int64_t frame) const {
  if (snip_edges_) return frame * shift_;
  return (2 * frame + 1) * shift_ / 2 - (window_ + first_lag_ + num_lags_ - 1) / 2;
}

Matrix PitchTracker::Compute(std::span<const float> samples) const {
  PitchStream stream(*this);
  stream.Accept(samples);
  return stream.Finish();
}

PitchStream::PitchStream(const PitchTracker& tracker)
    : tracker_(tracker), input_(static_cast<size_t>(tracker.reach_), 0.0f), input_first_(-tracker.reach_) {}

void PitchStream::Accept(std::span<const float> samples) {
  input_.insert(input_.end(), samples.begin(), samples.end());
  num_samples_ += static_cast<int64_t>(samples.size());
  Downsample(false);
}

void PitchStream::Downsample(bool finish) {
  const PitchTracker& t = tracker_;
  if (finish) input_.resize(input_.size() + static_cast<size_t>(2 * t.reach_ + t.in_unit_), 0.0f);
  const int64_t available = input_first_ + static_cast<int64_t>(input_.size());
  const int64_t total = t.NumDownsampled(num_samples_);
  int64_t begin = input_first_;
  for (auto k = static_cast<int64_t>(signal_.size()); k < total; ++k) {
    const auto& phase = t.phases_[static_cast<size_t>(k % t.out_unit_)];
    begin = phase.first + k / t.out_unit_ * t.in_unit_;
    if (begin + static_cast<int64_t>(phase.weights.size()) > available) break;
    signal_.push_back(Dot(phase.weights, input_.data() + (begin - input_first_)));
  }
  const int64_t used = begin - t.reach_ - input_first_;
  if (used > 0) {
    input_.erase(input_.begin(), input_.begin() + used);
    input_first_ += used;
  }
}

void PitchStream::Correlate(int64_t frame, double ballast, Correlations& c) const {
  const PitchTracker& t = tracker_;
  const int padded_lags = (t.num_lags_ + kLagLanes - 1) / kLagLanes * kLagLanes;
  const auto groups = t.interpolation_.first.size();
  c.window.resize(static_cast<size_t>(t.window_ + t.first_lag_ + padded_lags + kLagLanes));
  c.product.resize(static_cast<size_t>(padded_lags));
  c.energy.resize(static_cast<size_t>(padded_lags));
  c.plain.resize(static_cast<size_t>(padded_lags));
  c.ballasted.resize(static_cast<size_t>(padded_lags));
  c.costs.resize(groups * kLagLanes);
  const int64_t start = t.FrameStart(frame), size = static_cast<int64_t>(signal_.size());
  const int64_t length = t.window_ + t.first_lag_ + t.num_lags_ - 1;
  const int64_t from = std::clamp<int64_t>(-start, 0, length), to = std::clamp<int64_t>(size - start, from, length);
  std::fill(c.window.begin(), c.window.end(), 0.0f);
  if (to > from) std::copy(signal_.begin() + start + from, signal_.begin() + start + to, c.window.begin() + from);
  float sum = 0.0f;
  for (int i = 0; i < t.window_; ++i) sum += c.window[static_cast<size_t>(i)];
  const float mean = sum / static_cast<float>(t.window_);
  for (float& x : c.window) x -= mean;
  float own = 0.0f;
  for (int i = 0; i < t.window_; ++i) own += c.window[static_cast<size_t>(i)] * c.window[static_cast<size_t>(i)];
  CorrelateLags(c.window.data(), t.window_, t.first_lag_, padded_lags, c.product.data(), c.energy.data());
  const auto extra = static_cast<float>(ballast);
  for (size_t i = 0; i < c.product.size(); ++i) {
    const float power = own * c.energy[i];
    const float plain = std::sqrt(power), ballasted = std::sqrt(power + extra);
    c.plain[i] = plain > 0 ? c.product[i] / plain : 0.0f;
    c.ballasted[i] = ballasted > 0 ? c.product[i] / ballasted : 0.0f;
  }
}

float PitchStream::VoicingAt(int64_t frame, int state, Correlations& c) const {
  Correlate(frame, 0.0, c);
  const GroupedMatrix& m = tracker_.interpolation_;
  const size_t group = static_cast<size_t>(state) / kLagLanes, lane = static_cast<size_t>(state) % kLagLanes;
  const float* weights = m.weights.data() + lane;
  for (size_t g = 0; g < group; ++g) weights += m.count[g] * kLagLanes;
  float sum = 0.0f;
  for (int j = 0; j < m.count[group]; ++j)
    sum += weights[j * kLagLanes] * c.plain[static_cast<size_t>(m.first[group] + j)];
  return sum;
}

double PitchStream::Ballast(int64_t num_samples) const {
  if (num_samples == 0) return 0.0;
  double sum = 0.0, square = 0.0;
  for (int64_t i = 0; i < num_samples; ++i) {
    const double x = signal_[static_cast<size_t>(i)];
    sum += x;
    square += x * x;
  }
  const double mean = sum / static_cast<double>(num_samples);
  const double variance = std::max(0.0, square / static_cast<double>(num_samples) - mean * mean);
  return std::pow(variance * tracker_.window_, 2.0) * kBallast;
}

Matrix PitchStream::Finish() {
  Downsample(true);
  const PitchTracker& t = tracker_;
  const int64_t num_frames = t.NumFramesOf(static_cast<int64_t>(signal_.size()));
  // The path hangs on the last digits of the ballast: Kaldi takes it from the samples that do not touch the end, except
  // for the frames that do.
  const int64_t settled = t.NumSettled(num_samples_);
  const double ballast = Ballast(settled), last_ballast = Ballast(static_cast<int64_t>(signal_.size()));
  const int64_t num_settled_frames = t.NumSettledFrames(settled);
  const double step = std::log(1.0 + kLagRatio);
  const auto factor = static_cast<float>(step * step) * kPenaltyFactor;
  const size_t num_states = t.lags_s_.size();
  std::vector<float> cost(num_states), next(num_states);
  Traceback traceback(static_cast<int>(num_states));
  QuadraticTransition transition;
  Correlations c;
  for (int64_t frame = 0; frame < num_frames; ++frame) {
    Correlate(frame, frame < num_settled_frames ? ballast : last_ballast, c);
    GroupedTimesVector(t.interpolation_, c.ballasted.data(), c.costs.data());
    transition.Step(cost, factor, next, traceback.NewFrame());
    // Rounded step by step as Kaldi does: neighbouring paths often differ by less.
    for (size_t i = 0; i < num_states; ++i) next[i] += (1.0f - c.costs[i]) + kSoftMinF0 * t.lags_s_[i] * c.costs[i];
    const float least = *std::min_element(next.begin(), next.end());
    for (float& x : next) x -= least;
    std::swap(cost, next);
    if (frame % kCommitFrames == kCommitFrames - 1) traceback.Commit();
  }
  const auto best = static_cast<size_t>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  const std::vector<int> path = std::move(traceback).Finish(best);
  Matrix out(num_frames, 2);
  for (int64_t frame = 0; frame < num_frames; ++frame) {
    const int state = path[static_cast<size_t>(frame)];
    out(frame, 0) = VoicingAt(frame, state, c);
    out(frame, 1) = 1.0f / t.lags_s_[static_cast<size_t>(state)];
  }
  return out;
}

}  // namespace antiphon::feat
