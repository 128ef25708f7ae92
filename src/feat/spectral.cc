#include "feat/spectral.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace antiphon::feat {
namespace {

constexpr float kSmallestEnergy = std::numeric_limits<float>::epsilon();
constexpr float kLoudnessExponent = 0.33333f;

}  // namespace

SpectralFeatures::SpectralFeatures(const FrontEndOptions& options)
    : options_(options),
      geometry_(options),
      kind_(options.kind == "fbank"  ? Kind::kFbank
            : options.kind == "mfcc" ? Kind::kMfcc
                                     : Kind::kPlp),
      dim_(kind_ == Kind::kFbank ? options.mel_bins + (options.use_energy ? 1 : 0) : options.ceps),
      window_{WindowFunction(options.window, geometry_.length), geometry_.padded_length,
              static_cast<float>(options.preemphasis), options.remove_dc_offset},
      fft_(geometry_.padded_length),
      banks_(options) {
  if (kind_ == Kind::kFbank) return;
  lifter_ = Lifter(options.cepstral_lifter, options.ceps);
  if (kind_ == Kind::kMfcc) {
    if (options.ceps > options.mel_bins) {
      Throw<UsageError>("ceps = {} is more than mel-bins = {}", options.ceps, options.mel_bins);
    }
    transform_ = CosineTransform(options.ceps, options.mel_bins);
    for (size_t i = 0; i < transform_.size(); ++i) transform_[i] *= lifter_[i / static_cast<size_t>(options.mel_bins)];
  } else {
    if (options.ceps > options.lpc_order + 1) {
      Throw<UsageError>("ceps = {} is more than lpc-order + 1 = {}; plp cannot give more", options.ceps,
                        options.lpc_order + 1);
    }
    transform_ = SpectrumToAutocorrelation(options.lpc_order + 1, options.mel_bins + 2);
    loudness_ = EqualLoudness(banks_.centers_hz);
  }
}

void SpectralFeatures::Compute(const float* samples, int64_t count, float* out, int64_t stride,
                               Scratch& scratch) const {
  scratch.frames.Resize(geometry_.padded_length, kFrameLanes);
  scratch.power.Resize(geometry_.padded_length / 2 + 1, kFrameLanes);
  scratch.mel.Resize(options_.mel_bins + 2, kFrameLanes);
  scratch.out.Resize(std::max({dim_, options_.lpc_order + 1, options_.mel_bins + 1}), kFrameLanes);
  scratch.energy.Resize(1, kFrameLanes);
  for (int64_t first = 0; first < count; first += kFrameLanes) {
    const int lanes = static_cast<int>(std::min<int64_t>(kFrameLanes, count - first));
    CutFrames(window_, samples + first * geometry_.shift, geometry_.shift, lanes, scratch.frames.data(),
              options_.use_energy ? scratch.energy.data() : nullptr);
    fft_.Power(scratch.frames.data(), scratch.power.data());
    if (options_.use_energy) {
      LogBlock(scratch.energy.data(), 1, std::max(kSmallestEnergy, static_cast<float>(options_.energy_floor)));
    }
    if (kind_ == Kind::kFbank) PrepareFbank(scratch);
    if (kind_ == Kind::kMfcc) PrepareMfcc(scratch);
    if (kind_ == Kind::kPlp) PreparePlp(scratch);
    StoreFrames(scratch.out.data(), dim_, lanes, out + first * stride, stride);
  }
}

void SpectralFeatures::PrepareFbank(Scratch& scratch) const {
  float* bins = scratch.out.data() + (options_.use_energy ? kFrameLanes : 0);
  BandedTimesBlock(banks_.filters, scratch.power.data(), bins);
  LogBlock(bins, options_.mel_bins, kSmallestEnergy);
  if (options_.use_energy) std::copy_n(scratch.energy.data(), kFrameLanes, scratch.out.data());
}

void SpectralFeatures::PrepareMfcc(Scratch& scratch) const {
  BandedTimesBlock(banks_.filters, scratch.power.data(), scratch.mel.data());
  LogBlock(scratch.mel.data(), options_.mel_bins, kSmallestEnergy);
  DenseTimesBlock(transform_, dim_, options_.mel_bins, scratch.mel.data(), scratch.out.data());
  if (options_.use_energy) std::copy_n(scratch.energy.data(), kFrameLanes, scratch.out.data());
}

void SpectralFeatures::PreparePlp(Scratch& scratch) const {
  const int bins = options_.mel_bins, order = options_.lpc_order;
  float* inner = scratch.mel.data() + kFrameLanes;
  BandedTimesBlock(banks_.filters, scratch.power.data(), inner);
  // The floor keeps digital silence finite; speech never comes near it.
  ScaledPowerBlock(inner, loudness_, kSmallestEnergy, kLoudnessExponent);
  std::copy_n(inner, kFrameLanes, scratch.mel.data());
  std::copy_n(inner + (bins - 1) * kFrameLanes, kFrameLanes, inner + bins * kFrameLanes);
  scratch.work.Resize(3 * (order + 1), kFrameLanes);
  float* autocorrelation = scratch.work.data();
  float* lpc = autocorrelation + (order + 1) * kFrameLanes;
  DenseTimesBlock(transform_, order + 1, bins + 2, scratch.mel.data(), autocorrelation);
  LpcCepstraBlock(autocorrelation, order, lpc, scratch.out.data(), lpc + (order + 1) * kFrameLanes);
  for (int r = 0; r < dim_; ++r) {
    for (int l = 0; l < kFrameLanes; ++l) scratch.out(r, l) *= lifter_[static_cast<size_t>(r)];
  }
  if (options_.use_energy) std::copy_n(scratch.energy.data(), kFrameLanes, scratch.out.data());
}

}  // namespace antiphon::feat
