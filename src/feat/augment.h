// Variations of a recording that a recogniser should not mind: speed, volume, noise, rooms; masks over features.
//
// Units: samples on the 16-bit scale. Deterministic: everything follows from (options.seed, utterance id).
// Threads: Augmenter is immutable after construction. Errors: UsageError for impossible options, InputError for noise
// files. Source: Ko et al., Interspeech 2015 (speed); Ko et al., ICASSP 2017 (noise, rooms); Park et al., Interspeech
// 2019 (masks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/random.h"
#include "feat/audio.h"
#include "math/matrix.h"

namespace antiphon::feat {

/// What may happen to a waveform. With the defaults nothing does.
struct AugmentOptions {
  int64_t seed = 0;
  std::vector<double> speeds;
  double volume_low = 1.0;
  double volume_high = 1.0;
  double noise_probability = 0.0;
  std::vector<std::string> noise_kinds = {"white", "pink"};
  std::vector<std::string> noise_files;
  double snr_low_db = 5.0;
  double snr_high_db = 25.0;
  double reverb_probability = 0.0;
  std::vector<std::string> reverb_files;
  double reverb_time_low_s = 0.1;
  double reverb_time_high_s = 0.5;

  template <class V>
  void Visit(V& v) {
    v("seed", seed, "of all choices");
    v("speeds", speeds, Range{0.1, 10.0}, "speed factors to choose from, e.g. [0.9, 1.0, 1.1]; none: unchanged");
    VisitAllButSpeeds(v);
  }
  /// What leaves an utterance as long as it is.
  template <class V>
  void VisitAllButSpeeds(V& v) {
    v("volume-low", volume_low, Range{1e-3, 1e3}, "least gain");
    v("volume-high", volume_high, Range{1e-3, 1e3}, "largest gain");
    v("noise-probability", noise_probability, Range{0.0, 1.0}, "share of utterances that get noise");
    v("noise-kinds", noise_kinds, "synthetic noises to choose from: white, pink");
    v("noise-files", noise_files, "recordings of noise to choose from besides");
    v("snr-low-db", snr_low_db, Range{-30.0, 100.0}, "least signal-to-noise ratio");
    v("snr-high-db", snr_high_db, Range{-30.0, 100.0}, "largest signal-to-noise ratio");
    v("reverb-probability", reverb_probability, Range{0.0, 1.0}, "share of utterances put into a room");
    v("reverb-files", reverb_files, "recorded impulse responses; none: synthetic rooms");
    v("reverb-time-low-s", reverb_time_low_s, Range{0.02, 5.0}, "least time to decay by 60 dB");
    v("reverb-time-high-s", reverb_time_high_s, Range{0.02, 5.0}, "largest time to decay by 60 dB");
  }
};

/// Applies what the options say to one utterance: speed, then room, then noise, then volume.
class Augmenter {
 public:
  /// Reads the noise and impulse-response files.
  explicit Augmenter(const AugmentOptions& options);
  Waveform Apply(const Waveform& wave, std::string_view utt_id) const;
  /// What these random numbers choose, whatever options.seed says.
  Waveform Apply(const Waveform& wave, Rng& rng) const;
  /// What Apply will choose for the utterance, as text ("speed 0.9, pink noise at 12.3 dB"); "" if nothing.
  std::string Describe(std::string_view utt_id) const;
  /// The noise among that, as a label: a kind, the name of a file without folder and ending, or "clean"; of files that
  /// would be called like another noise, the whole path. Blanks become underscores.
  std::string NoiseLabel(std::string_view utt_id) const;
  bool adds_noise() const { return options_.noise_probability > 0; }

 private:
  struct Choice {
    double speed = 1.0;
    double volume = 1.0;
    int noise = -1;  // index into kinds, then files
    double snr_db = 0.0;
    bool reverb = false;
    int room = -1;  // index into files; -1: synthetic
    double reverb_time_s = 0.0;
  };
  Choice Choose(Rng& rng) const;
  Choice ChoiceFor(std::string_view utt_id) const;
  const std::string& NoiseName(int noise) const;

  AugmentOptions options_;
  std::vector<Waveform> noises_;
  std::vector<std::string> noise_labels_;  // kinds, then files
  std::vector<Waveform> rooms_;
};

/// Noise of unit variance: "white", or "pink" (power as 1/f).
std::vector<float> MakeNoise(std::string_view kind, int64_t num_samples, Rng& rng);
/// Adds `noise` (repeated or cut to length from `offset` on) scaled to the given ratio of mean powers.
void AddNoise(std::vector<float>& samples, std::span<const float> noise, int64_t offset, double snr_db);
/// A synthetic room: direct sound, a few early reflections, exponentially decaying noise; direct sound first, of
/// height 1.
std::vector<float> MakeRoom(double reverb_time_s, int sample_rate_hz, Rng& rng);
/// Convolves, keeping length, alignment (the response's peak is time 0) and mean power.
void AddReverb(std::vector<float>& samples, std::span<const float> response);

/// Masks bands and stretches of features, in place (SpecAugment without warping).
struct SpectralMaskOptions {
  int num_bands = 2;
  int max_band = 8;
  int num_stretches = 2;
  int max_stretch_frames = 25;
  double max_stretch_share = 0.2;
  template <class V>
  void Visit(V& v) {
    v("num-bands", num_bands, Range{0, 100}, "masked bands of neighbouring columns");
    v("max-band", max_band, Range{0, 4096}, "widest band, columns");
    v("num-stretches", num_stretches, Range{0, 100}, "masked stretches of time");
    v("max-stretch-frames", max_stretch_frames, Range{0, 100000}, "longest stretch");
    v("max-stretch-share", max_stretch_share, Range{0.0, 1.0}, "longest stretch as a share of the utterance");
  }
};
/// Masked values become the mean of their column. `num_columns` leading columns are masked (0: all).
void MaskSpectrum(MatrixView frames, const SpectralMaskOptions& options, Rng& rng, int num_columns = 0);

}  // namespace antiphon::feat
