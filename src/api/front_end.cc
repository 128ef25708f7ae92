#include "antiphon/front_end.h"

#include <algorithm>
#include <utility>

#include "api/internal.h"
#include "base/cancel.h"
#include "base/config.h"
#include "base/error.h"
#include "base/toml_text.h"
#include "feat/audio.h"
#include "feat/front_end.h"

namespace antiphon {
namespace {

constexpr float kSampleScale = 32768.0f;
constexpr char kSource[] = "(front end)";

feat::FrontEnd FrontEndFrom(const Config& config, feat::FrontEndOptions defaults = {}) {
  return feat::FrontEnd(ReadOptions<feat::FrontEndOptions>(config, {}, std::move(defaults)));
}

}  // namespace

struct ANTIPHON_INTERNAL FrontEnd::Impl {
  feat::FrontEnd front_end;
};

FrontEnd::FrontEnd(const std::string& options) : impl_(new Impl{FrontEndFrom(Config::Parse(options, kSource))}) {}
FrontEnd::FrontEnd(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
FrontEnd::~FrontEnd() = default;
FrontEnd::FrontEnd(const FrontEnd&) = default;
FrontEnd& FrontEnd::operator=(const FrontEnd&) = default;

FrontEnd FrontEnd::Standard(const std::string& kind, int sample_rate_hz, const std::string& options) {
  // The kind as an option too, so that one that there is not is refused.
  Config config = Config::Parse(options, kSource);
  if (!config.Has("kind")) config.Set("kind", TomlString(kind));
  if (!config.Has("sample-rate")) config.Set("sample-rate", std::to_string(sample_rate_hz));
  return FrontEnd(std::shared_ptr<const Impl>(
      new Impl{FrontEndFrom(config, feat::FrontEndOptions::Standard(kind, sample_rate_hz))}));
}

int FrontEnd::dim() const { return impl_->front_end.dim(); }
int FrontEnd::sample_rate_hz() const { return impl_->front_end.options().sample_rate_hz; }
double FrontEnd::frame_shift_s() const { return impl_->front_end.options().frame_shift_ms / 1000; }
std::string FrontEnd::options() const { return OptionsToConfig(impl_->front_end.options()).ToToml(); }

std::vector<float> FrontEnd::Compute(std::span<const float> samples, int rate_hz, const std::string& utt_id) const {
  if (rate_hz <= 0) Throw<InputError>("the sampling rate is {} Hz", rate_hz);
  feat::Waveform wave{{samples.begin(), samples.end()}, rate_hz};
  for (float& sample : wave.samples) sample *= kSampleScale;
  if (rate_hz != sample_rate_hz()) wave = feat::Resample(std::move(wave), sample_rate_hz());
  const uint64_t utterance = utt_id.empty() ? 0 : feat::UtteranceSeed(utt_id);
  feat::FrontEndStream stream(impl_->front_end, utterance);
  constexpr size_t kPieceSamples = 1 << 18;
  for (std::span<const float> rest = wave.samples; !rest.empty();) {
    ThrowIfCancelled("computing features");
    const size_t piece = std::min(rest.size(), kPieceSamples);
    stream.Accept(rest.first(piece));
    rest = rest.subspan(piece);
  }
  stream.Finish();
  const Matrix frames = stream.Take();
  return {frames.data(), frames.data() + frames.size()};
}

}  // namespace antiphon
