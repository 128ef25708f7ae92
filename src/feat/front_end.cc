#include "feat/front_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "feat/mel.h"
#include "feat/online_mean.h"
#include "feat/pitch.h"
#include "feat/spectral.h"
#include "feat/splice.h"
#include "kernels/gaussian_noise.h"

namespace antiphon::feat {
namespace {

// Squares of spectra of anything larger would overflow.
constexpr float kLargestFinite = 1e12f;
// Used samples are forgotten in steps of at least this many.
constexpr int64_t kForgetSamples = int64_t{1} << 15;

// Index of the sample that stands for index i of a signal of n samples with mirrored ends.
int64_t Mirror(int64_t i, int64_t n) {
  while (i < 0 || i >= n) i = i < 0 ? -i - 1 : 2 * n - 1 - i;
  return i;
}

}  // namespace

FrontEndOptions FrontEndOptions::Standard(std::string_view kind, int sample_rate_hz) {
  FrontEndOptions options;
  options.kind = kind;
  options.sample_rate_hz = sample_rate_hz;
  options.dither = 0.0;
  options.mel_bins = 23;
  options.high_freq_hz = 0.0;
  options.ceps = 13;
  options.use_energy = kind != "fbank";
  return options;
}

std::string DriftRemark(const FrontEndOptions& options) {
  const FrameGeometry geometry(options);
  const double per_second = options.sample_rate_hz * options.frame_shift_ms / 1000.0 / geometry.shift - 1.0;
  if (std::abs(per_second) < 1e-6) return "";
  return fmt::format(
      "a frame every {} ms is one every {} samples at {} Hz, which is a little less: times that are computed from "
      "frames will be late by {:.1f} ms in each second; take a rate or a frame-shift-ms that gives whole samples "
      "(--sample-rate {}, or auto)",
      options.frame_shift_ms, geometry.shift, options.sample_rate_hz, 1000 * per_second,
      std::max(1, options.sample_rate_hz / 1000) * 1000);
}

uint64_t UtteranceSeed(std::string_view utt_id) { return Checksum(utt_id); }

struct FrontEnd::Impl {
  explicit Impl(const FrontEndOptions& o)
      : options(o), spectral(o), delta_filters(DeltaFilters(o.delta_order, o.delta_window)) {
    if (o.pitch_dim != 0 && o.pitch_dim != 1 && o.pitch_dim != 3) {
      Throw<UsageError>("pitch-dim = {} is not 0, 1 or 3", o.pitch_dim);
    }
    if (o.pitch_dim > 0) pitch.emplace(o);
    if (o.mean_window > 0 && std::ssize(o.mean_prior) != dim()) {
      Throw<UsageError>("mean-window needs mean-prior: a number for each of {} dimensions, found {}", dim(),
                        o.mean_prior.size());
    }
  }
  int dim() const { return static_dim() * (options.delta_order + 1); }

  int static_dim() const { return spectral.dim() + options.pitch_dim; }
  int64_t delta_reach() const { return static_cast<int64_t>(options.delta_order) * options.delta_window; }

  FrontEndOptions options;
  SpectralFeatures spectral;
  std::optional<PitchTracker> pitch;
  std::vector<std::vector<float>> delta_filters;
};

FrontEnd::FrontEnd(const FrontEndOptions& options) : impl_(std::make_shared<const Impl>(options)) {}

const FrontEndOptions& FrontEnd::options() const { return impl_->options; }

int FrontEnd::dim() const { return impl_->dim(); }

int64_t FrontEnd::NumFrames(int64_t num_samples) const {
  const int64_t frames = impl_->spectral.geometry().NumFrames(num_samples, impl_->options.snip_edges);
  return impl_->pitch ? std::min(frames, impl_->pitch->NumFrames(num_samples)) : frames;
}

Matrix FrontEnd::Compute(std::span<const float> samples, uint64_t utterance) const {
  FrontEndStream stream(*this, utterance);
  stream.Accept(samples);
  stream.Finish();
  return stream.Take();
}

struct FrontEndStream::State {
  State(FrontEnd f, uint64_t utterance, const SpeakerMean& speaker) : front_end(std::move(f)), impl(*front_end.impl_) {
    key = MixSeed(static_cast<uint64_t>(impl.options.dither_seed), utterance);
    if (impl.pitch) pitch.emplace(*impl.pitch);
    const FrontEndOptions& o = impl.options;
    if (o.mean_window > 0) mean.emplace(OnlineMeanOptions{o.mean_window, o.mean_prior_frames, o.mean_prior}, speaker);
  }

  void Accept(std::span<const float> piece);
  void Finish();
  int64_t FramesReady() const;
  Matrix Take(int64_t max_frames);

  void ComputeFrames(int64_t end);
  void ComputeMirrored(int64_t end);
  void ComputeInside(int64_t end);
  float* NewRows(int64_t count);
  void JoinPitch();
  void Forget();

  FrontEnd front_end;
  const FrontEnd::Impl& impl;
  uint64_t key;
  std::optional<PitchStream> pitch;
  std::optional<OnlineMean> mean;
  SpectralFeatures::Scratch scratch;
  std::vector<float> samples;  // dithered, from first_sample on
  int64_t first_sample = 0;
  int64_t num_samples = 0;  // all that came
  std::vector<float> mirrored;
  std::vector<float> statics;  // rows first_row … num_rows − 1
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t taken = 0;
  bool finished = false;
};

void FrontEndStream::State::Accept(std::span<const float> piece) {
  CHECK(!finished) << "audio after Finish";
  int bad = 0;
  for (const float x : piece) bad |= !(std::fabs(x) <= kLargestFinite);
  if (bad != 0) {
    Throw<InputError>("samples are not finite, or larger than {:g}; expected numbers on the scale of 16-bit integers",
                      kLargestFinite);
  }
  if (pitch) pitch->Accept(piece);
  const auto count = static_cast<int64_t>(piece.size());
  samples.insert(samples.end(), piece.begin(), piece.end());
  if (impl.options.dither > 0) {
    AddGaussianNoise(key, num_samples, count, static_cast<float>(impl.options.dither),
                     samples.data() + samples.size() - count);
  }
  num_samples += count;
  const FrameGeometry& geometry = impl.spectral.geometry();
  const int64_t first_start = geometry.Start(0, impl.options.snip_edges);
  const int64_t room = num_samples - geometry.length - first_start;
  if (room >= 0) ComputeFrames(room / geometry.shift + 1);
  Forget();
}

void FrontEndStream::State::Finish() {
  CHECK(!finished) << "Finish twice";
  ComputeFrames(impl.spectral.geometry().NumFrames(num_samples, impl.options.snip_edges));
  if (pitch) JoinPitch();
  finished = true;
}

// Frames num_rows … end − 1.
void FrontEndStream::State::ComputeFrames(int64_t end) {
  const FrameGeometry& geometry = impl.spectral.geometry();
  const bool snip = impl.options.snip_edges;
  const auto inside = [&](int64_t frame) {
    const int64_t start = geometry.Start(frame, snip);
    return start >= 0 && start + geometry.length <= num_samples;
  };
  while (num_rows < end) {
    int64_t stop = num_rows + 1;
    const bool in = inside(num_rows);
    if (in) {
      stop = std::min(end, (num_samples - geometry.length - geometry.Start(0, snip)) / geometry.shift + 1);
      ComputeInside(stop);
    } else {
      while (stop < end && !inside(stop)) ++stop;
      ComputeMirrored(stop);
    }
  }
}

float* FrontEndStream::State::NewRows(int64_t count) {
  const size_t old = statics.size();
  statics.resize(old + static_cast<size_t>(count * impl.static_dim()));
  num_rows += count;
  return statics.data() + old;
}

void FrontEndStream::State::ComputeInside(int64_t end) {
  const int64_t start = impl.spectral.geometry().Start(num_rows, impl.options.snip_edges) - first_sample;
  CHECK_GE(start, 0);
  const int64_t count = end - num_rows;
  impl.spectral.Compute(samples.data() + start, count, NewRows(count), impl.static_dim(), scratch);
}

void FrontEndStream::State::ComputeMirrored(int64_t end) {
  const FrameGeometry& geometry = impl.spectral.geometry();
  const int64_t count = end - num_rows, start = geometry.Start(num_rows, impl.options.snip_edges);
  mirrored.resize(static_cast<size_t>((count - 1) * geometry.shift + geometry.length));
  for (size_t i = 0; i < mirrored.size(); ++i) {
    const int64_t from = Mirror(start + static_cast<int64_t>(i), num_samples) - first_sample;
    CHECK_GE(from, 0);
    mirrored[i] = samples[static_cast<size_t>(from)];
  }
  impl.spectral.Compute(mirrored.data(), count, NewRows(count), impl.static_dim(), scratch);
}

void FrontEndStream::State::JoinPitch() {
  const Matrix features = PostProcessPitch(pitch->Finish(), impl.options.pitch_dim);
  num_rows = std::min(num_rows, features.rows());
  const int64_t dim = impl.static_dim();
  statics.resize(static_cast<size_t>(num_rows * dim));
  for (int64_t t = 0; t < num_rows; ++t) {
    std::copy_n(features.Row(t).data(), impl.options.pitch_dim, statics.data() + t * dim + impl.spectral.dim());
  }
}

// Mirroring at the end reaches back less than a frame's length before the first frame not yet computed.
void FrontEndStream::State::Forget() {
  const FrameGeometry& geometry = impl.spectral.geometry();
  const int64_t needed = geometry.Start(num_rows, impl.options.snip_edges) - 2 * geometry.length;
  if (needed - first_sample < kForgetSamples) return;
  const int64_t drop = std::min(needed - first_sample, static_cast<int64_t>(samples.size()));
  samples.erase(samples.begin(), samples.begin() + drop);
  first_sample += drop;
}

int64_t FrontEndStream::State::FramesReady() const {
  if (finished) return num_rows - taken;
  return impl.pitch ? 0 : std::max<int64_t>(0, num_rows - impl.delta_reach() - taken);
}

Matrix FrontEndStream::State::Take(int64_t max_frames) {
  const int64_t count = std::clamp<int64_t>(max_frames, 0, FramesReady());
  const int64_t dim = impl.static_dim();
  Matrix out;
  out.Resize(count, front_end.dim());
  const ConstMatrixView rows(statics.data(), num_rows - first_row, dim);
  if (impl.options.delta_order == 0) {
    if (count > 0)
      std::memcpy(out.data(), rows.Row(taken - first_row).data(), static_cast<size_t>(out.size()) * sizeof(float));
  } else {
    for (int64_t t = 0; t < count; ++t) {
      AddDeltasRow(rows, taken + t - first_row, impl.delta_filters, out.Row(t).data());
    }
  }
  if (mean) mean->TakeOut(out);
  taken += count;
  const int64_t needed = std::max<int64_t>(0, taken - impl.delta_reach());
  statics.erase(statics.begin(), statics.begin() + (needed - first_row) * dim);
  first_row = needed;
  return out;
}

FrontEndStream::FrontEndStream(FrontEnd front_end, uint64_t utterance, const SpeakerMean& speaker)
    : state_(std::make_unique<State>(std::move(front_end), utterance, speaker)) {}
FrontEndStream::~FrontEndStream() = default;
FrontEndStream::FrontEndStream(FrontEndStream&&) noexcept = default;
FrontEndStream& FrontEndStream::operator=(FrontEndStream&&) noexcept = default;

void FrontEndStream::Accept(std::span<const float> samples) { state_->Accept(samples); }
void FrontEndStream::Finish() { state_->Finish(); }
bool FrontEndStream::finished() const { return state_->finished; }
int64_t FrontEndStream::frames_ready() const { return state_->FramesReady(); }
Matrix FrontEndStream::Take(int64_t max_frames) { return state_->Take(max_frames); }
int FrontEndStream::dim() const { return state_->front_end.dim(); }
SpeakerMean FrontEndStream::speaker() const { return state_->mean ? state_->mean->speaker() : SpeakerMean(); }

}  // namespace antiphon::feat
