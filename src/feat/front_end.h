// From waveform to feature frames: log-mel filter bank, MFCC or PLP, with pitch and differences if asked for.
//
// One FrontEnd says once what a frame is; Compute works on a whole utterance and FrontEndStream on audio that arrives
// in pieces, and both give bit-identical frames however the audio is cut.
//
// Shapes: T × dim(), one frame per row; dim() = (base + pitch) × (1 + delta-order).
// Units: samples as floats on the 16-bit scale (feat/audio.h) at options().sample_rate_hz; features in natural
// logarithms. Order per frame, as in Kaldi: dither; mean; raw log energy; pre-emphasis; window; power spectrum; mel
// bins; kind. Dither is added to each sample once, by its index in the utterance, so that neither cutting nor threads
// change it. Threads: FrontEnd is immutable, its const methods may run together. A FrontEndStream belongs to one
// thread. Errors: UsageError for impossible options; InputError for samples that are not finite. Source: Kaldi's
// feature extraction (Povey et al., ASRU 2011); Davis, Mermelstein 1980 (MFCC); Hermansky 1990 (PLP); Ghahremani et
// al., ICASSP 2014 (pitch).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "feat/online_mean.h"
#include "math/matrix.h"

namespace antiphon::feat {

/// The defaults are 40 high-resolution cepstra for hybrid networks; FrontEndOptions::Standard has Kaldi's for GMMs.
struct FrontEndOptions {
  std::string kind = "mfcc";
  int sample_rate_hz = 16000;
  double frame_length_ms = 25.0;
  double frame_shift_ms = 10.0;
  bool snip_edges = true;
  double dither = 1.0;
  int64_t dither_seed = 0;
  double preemphasis = 0.97;
  std::string window = "povey";
  bool remove_dc_offset = true;
  int mel_bins = 40;
  double low_freq_hz = 20.0;
  double high_freq_hz = -400.0;
  int ceps = 40;
  bool use_energy = false;
  double energy_floor = 0.0;
  double cepstral_lifter = 22.0;
  int lpc_order = 12;
  int pitch_dim = 0;
  double min_pitch_hz = 50.0;
  double max_pitch_hz = 400.0;
  int delta_order = 0;
  int delta_window = 2;
  int mean_window = 0;
  int mean_prior_frames = 200;
  std::vector<double> mean_prior = {};

  template <class V>
  void Visit(V& v) {
    v("kind", kind, OneOf{{"fbank", "mfcc", "plp"}},
      "log-mel filter bank, mel cepstra or perceptual linear prediction");
    v("sample-rate", sample_rate_hz, Range{1000, 384000}, "Hz of the samples");
    v("frame-length-ms", frame_length_ms, Range{1.0, 1000.0}, "length of the analysis window");
    v("frame-shift-ms", frame_shift_ms, Range{0.5, 1000.0}, "distance of frames");
    v("snip-edges", snip_edges, "only frames that lie wholly inside; otherwise the ends are mirrored");
    v("dither", dither, Range{0.0, 1000.0}, "standard deviation of noise added to the samples (16-bit scale); 0: none");
    v("dither-seed", dither_seed, "of the dither");
    v("preemphasis", preemphasis, Range{0.0, 1.0}, "coefficient of the first difference");
    v("window", window, OneOf{{"povey", "hamming", "hanning", "blackman", "sine", "rectangular"}}, "window function");
    v("remove-dc-offset", remove_dc_offset, "subtract each frame's mean");
    v("mel-bins", mel_bins, Range{3, 512},
      "triangular filters (about 23 for GMMs at 16 kHz, 15 at 8 kHz, 40 for networks)");
    v("low-freq-hz", low_freq_hz, Range{0.0, 192000.0}, "lower edge of the first filter");
    v("high-freq-hz", high_freq_hz, Range{-192000.0, 192000.0},
      "upper edge of the last; ≤ 0 counts from half the rate");
    v("ceps", ceps, Range{1, 512}, "cepstra with the zeroth (mfcc, plp)");
    v("use-energy", use_energy, "log energy in place of the zeroth cepstrum; an extra first column for fbank");
    v("energy-floor", energy_floor, Range{0.0, 1e12}, "floor of the frame energy; 0: the smallest step of a float");
    v("cepstral-lifter", cepstral_lifter, Range{0.0, 1000.0}, "scales cepstra to similar size; 0: none");
    v("lpc-order", lpc_order, Range{1, 100}, "order of the linear prediction (plp)");
    v("pitch-dim", pitch_dim, Range{0, 3},
      "0: none; 1: normalised log pitch; 3: voicing, normalised log pitch, its difference");
    v("min-pitch-hz", min_pitch_hz, Range{10.0, 1000.0}, "lowest pitch searched for");
    v("max-pitch-hz", max_pitch_hz, Range{20.0, 2000.0}, "highest pitch searched for");
    v("delta-order", delta_order, Range{0, 4}, "append differences up to this order");
    v("delta-window", delta_window, Range{1, 100}, "frames to each side of a difference");
    v("mean-window", mean_window, Range{0, 1 << 20},
      "frames up to now whose mean is taken out of each frame (600, say: live recognition sees the same); 0: none");
    v("mean-prior-frames", mean_prior_frames, Range{0, 1 << 20},
      "frames that the prior mean counts for while fewer than mean-window are there");
    v("mean-prior", mean_prior, "the mean of each dimension before there is speech; antiphon features finds it");
  }

  /// Kaldi's defaults of one kind ("fbank", "mfcc", "plp"): 23 mel bins, 13 cepstra, raw energy, no dither; for parity
  /// and GMMs.
  static FrontEndOptions Standard(std::string_view kind, int sample_rate_hz = 16000);
};

/// A sentence if frame-shift-ms is no whole number of samples, so that times go wrong, else "".
std::string DriftRemark(const FrontEndOptions& options);

/// The number that distinguishes an utterance's dither and augmentation from another's.
uint64_t UtteranceSeed(std::string_view utt_id);

class FrontEndStream;

/// Cheap to copy; copies share their tables.
class FrontEnd {
 public:
  explicit FrontEnd(const FrontEndOptions& options);

  const FrontEndOptions& options() const;
  int dim() const;
  /// Frames of an utterance of this many samples; 0 if it is too short.
  int64_t NumFrames(int64_t num_samples) const;
  /// All frames of an utterance (NumFrames × dim; no rows if it is too short). `utterance` (UtteranceSeed) selects the
  /// dither.
  Matrix Compute(std::span<const float> samples, uint64_t utterance = 0) const;

 private:
  friend class FrontEndStream;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// The same frames while the audio is still coming.
///
/// A frame is handed out once it is final: after its last sample, plus delta-order × delta-window frames. With
/// snip-edges off, half a window more at the end waits for Finish. With pitch-dim > 0 all frames wait for Finish,
/// because pitch, as defined, depends on the whole utterance (mean energy, best path).
class FrontEndStream {
 public:
  /// `speaker`: what earlier utterances say of the mean that is taken out (mean-window), if the speaker is known.
  explicit FrontEndStream(FrontEnd front_end, uint64_t utterance = 0, const SpeakerMean& speaker = {});
  ~FrontEndStream();
  FrontEndStream(FrontEndStream&&) noexcept;
  FrontEndStream& operator=(FrontEndStream&&) noexcept;

  /// More audio; any number of samples. Not after Finish.
  void Accept(std::span<const float> samples);
  /// No more audio: makes the remaining frames ready. Once.
  void Finish();
  bool finished() const;

  /// Final frames not yet taken.
  int64_t frames_ready() const;
  /// Hands out the next min(frames_ready(), max_frames) frames, in order, each once.
  Matrix Take(int64_t max_frames = INT64_MAX);
  int dim() const;
  /// For the speaker's next utterance; empty without mean-window.
  SpeakerMean speaker() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace antiphon::feat
