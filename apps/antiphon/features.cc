// antiphon features: from the recordings of a data directory to a table of features.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "command.h"
#include "data/feature_extraction.h"
#include "processes.h"
#include "report/progress.h"

namespace antiphon::app {
namespace {

struct FeaturesCommandOptions {
  std::string data;
  std::string out;
  data::DataDirOptions data_dir;
  data::FeatureExtractionOptions extraction;

  template <class V>
  void Visit(V& v) {
    v("data", data, "Kaldi data directory with wav.scp");
    v("out", out, "folder for feats.scp, cmvn.scp, utt2spk, front_end.toml");
    data_dir.Visit(v);
    extraction.Visit(v);
  }
};

void Features(const FeaturesCommandOptions& options, CommandContext& context) {
  const auto start = std::chrono::steady_clock::now();
  const data::DataDir dir = data::DataDir::Load(options.data, options.data_dir);
  std::optional<report::Progress> bar;
  data::FeatureExtractionResult result;
  InTeam(context, [&](Team& team, int threads) {
    const auto progress = [&](int64_t done, int64_t total) {
      if (!bar) bar.emplace("features", total, "utterances");
      bar->Update(done);
    };
    result = data::ExtractFeatures(dir, options.extraction, options.out, threads, progress, team);
  });
  if (bar) bar->Finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const auto& [utt_id, why] : result.failed) log::Warn("left out {}: {}", utt_id, why);
  feat::FrontEndOptions front_end = options.extraction.front_end;
  front_end.sample_rate_hz = result.sample_rate_hz;
  const std::string drift = options.extraction.like.empty() ? feat::DriftRemark(front_end) : "";
  if (!drift.empty()) log::Warn("{}", drift);
  if (result.resampled > 0) log::Info("{} utterances were resampled to {} Hz", result.resampled, result.sample_rate_hz);
  context.Print("{} utterances, {:.2f} h, {} frames of {} dimensions at {} Hz in {:.1f} s ({:.0f} × real time){}",
                result.utterances, result.audio_s / 3600, result.frames, result.dim, result.sample_rate_hz, seconds,
                result.audio_s / seconds,
                result.failed.empty() ? "" : fmt::format("; {} left out, see failed.txt", result.failed.size()));
  context.SetResult(nlohmann::json{{"utterances", result.utterances},
                                   {"failed", result.failed.size()},
                                   {"hours", result.audio_s / 3600},
                                   {"frames", result.frames},
                                   {"dim", result.dim},
                                   {"sample_rate_hz", result.sample_rate_hz},
                                   {"resampled", result.resampled},
                                   {"channels_mixed", result.channels_mixed},
                                   {"seconds", seconds},
                                   {"times_real_time", result.audio_s / seconds}}
                        .dump());
}

// The rate of the samples may be a word, which no front end knows.
class FeaturesCommand : public CommandOf<FeaturesCommandOptions> {
 public:
  explicit FeaturesCommand(CommandInfo info) : CommandOf(std::move(info), nullptr) {}
  void Run(CommandContext& context) override { Features(Read(context.config()), context); }
  void CheckOptions(const Config& config) const override { Read(config); }

 private:
  FeaturesCommandOptions Read(const Config& given) const {
    const bool usual = given.AnyAsText("sample-rate") == "auto";
    Config config = usual ? Config::Parse(given.ToToml(), given.Where()) : given;
    if (usual) config.Set("sample-rate", fmt::format("{}", feat::FrontEndOptions().sample_rate_hz));
    auto options = ReadOptions<FeaturesCommandOptions>(config, OtherKeys(info()));
    options.extraction.usual_rate = usual;
    return options;
  }
};

REGISTER_COMPONENT(CommandRegistry, "features", [] {
  return std::make_unique<FeaturesCommand>(CommandInfo{
      .summary = "compute features of a data directory: filter bank, MFCC, PLP, pitch, with augmentation",
      .description =
          "Writes feats.scp, cmvn.scp per speaker, the lists of utterances and speakers, utt2noise if noise is "
          "added, and front_end.toml. --sample-rate auto takes the rate of most of the speech, in whole kHz and 16000 "
          "Hz at most.",
      .example = "antiphon features data/train feats/train --kind mfcc --sample-rate auto\n"
                 "antiphon features data/test feats/test --like feats/train",
      .positionals = {"data", "out"},
      .required = {"data", "out"},
      .common = {"kind", "sample-rate", "mel-bins", "ceps", "frame-shift-ms", "pitch-dim", "delta-order", "like",
                 "channel", "on-error", "speeds", "augmented-copies", "audio-root", "allow-commands"}});
});

}  // namespace
}  // namespace antiphon::app
