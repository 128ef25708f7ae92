// antiphon features: a data directory's sound to feature tables, with copies at other speeds and augmentation if asked
// for.
#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "command.h"
#include "data/archive.h"
#include "data/audio_source.h"
#include "data/data_dir.h"
#include "feat/augment.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"

namespace antiphon::app {
namespace {

struct FeaturesCommandOptions {
  std::string data, out;
  data::DataDirOptions data_dir;
  feat::FrontEndOptions front_end;
  feat::AugmentOptions augment;
  std::vector<double> copy_speeds;
  int channel = -1;
  bool compress = true;
  bool skip_short = false;
  template <class V>
  void Visit(V& v) {
    v("data", data, "data directory");
    v("out", out, "folder for feats.ark, feats.scp, cmvn.ark, cmvn.scp, text, utt2spk, front-end.toml");
    data_dir.Visit(v);
    v.Group("front-end", front_end);
    v.Group("augment", augment);
    v("copy-speeds", copy_speeds, Range{0.1, 10.0},
      "add a copy of every utterance at each of these speeds, as another speaker's: [0.9, 1.1]");
    v("channel", channel, Range{-1, 1000}, "channel of the recordings, from 0; -1: the mean of all");
    v("compress", compress, "one byte per value (Kaldi's compressed matrices)");
    v("skip-short", skip_short, "leave out utterances shorter than a frame instead of refusing them");
  }
};

// An utterance at one speed.
struct Job {
  size_t utterance;
  double speed;
  std::string prefix;
};

std::vector<Job> MakeJobs(const data::DataDir& dir, const FeaturesCommandOptions& options) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < dir.utterances().size(); ++i) jobs.push_back({i, 1.0, ""});
  for (const double speed : options.copy_speeds) {
    const std::string prefix = fmt::format("sp{:g}-", speed);
    for (size_t i = 0; i < dir.utterances().size(); ++i) jobs.push_back({i, speed, prefix});
  }
  const auto& utterances = dir.utterances();
  std::stable_sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) {
    return a.prefix + utterances[a.utterance].utt_id < b.prefix + utterances[b.utterance].utt_id;
  });
  return jobs;
}

Matrix ComputeOne(const data::AudioSource& audio, const data::Utterance& utterance, const Job& job,
                  const feat::Augmenter& augmenter, const feat::FrontEnd& front_end, int channel) {
  const std::string id = job.prefix + utterance.utt_id;
  return WithContext(
      [&] {
        feat::Waveform wave = audio.Read(utterance, channel);
        if (job.speed != 1.0) wave.samples = feat::ResampleBySpeed(wave.samples, job.speed);
        wave = feat::Resample(augmenter.Apply(wave, id), front_end.options().sample_rate_hz);
        return front_end.Compute(wave.samples, feat::UtteranceSeed(id));
      },
      [&] { return fmt::format("utterance '{}'", id); });
}

void Features(const FeaturesCommandOptions& options, CommandContext& context) {
  const auto start = std::chrono::steady_clock::now();
  const auto dir = data::DataDir::Load(options.data, options.data_dir);
  const feat::FrontEnd front_end(options.front_end);
  const feat::Augmenter augmenter(options.augment);
  const data::AudioSource audio(dir);
  const std::vector<Job> jobs = MakeJobs(dir, options);
  const std::filesystem::path out = options.out;

  data::TableWriter<Matrix> writer(
      out / "feats.ark", {.coding = options.compress ? data::MatrixCoding::kColumns8 : data::MatrixCoding::kPlain});
  std::map<std::string, feat::CmvnStats> stats;
  std::string text, utt2spk;
  int64_t frames = 0, skipped = 0;
  ParallelInOrder<Matrix>(
      jobs.size(), context.threads(),
      [&](size_t i) {
        ThrowIfCancelled("computing features");
        return ComputeOne(audio, dir.utterances()[jobs[i].utterance], jobs[i], augmenter, front_end, options.channel);
      },
      [&](size_t i, Matrix&& features) {
        const data::Utterance& utterance = dir.utterances()[jobs[i].utterance];
        const std::string id = jobs[i].prefix + utterance.utt_id, speaker = jobs[i].prefix + utterance.speaker;
        if (features.rows() == 0) {
          if (!options.skip_short) {
            Throw<InputError>("utterance '{}' is shorter than one frame of {} ms; remove it or use --skip-short", id,
                              options.front_end.frame_length_ms);
          }
          log::Warn("utterance '{}' is shorter than one frame and left out", id);
          ++skipped;
          return;
        }
        writer.Write(id, features);
        stats.try_emplace(speaker, front_end.dim()).first->second.Add(features);
        utt2spk += fmt::format("{} {}\n", id, speaker);
        if (utterance.has_transcript) text += fmt::format("{} {}\n", id, fmt::join(utterance.words, " "));
        frames += static_cast<int64_t>(features.rows());
      });
  if (frames == 0) Throw<InputError>("'{}' gave no frames at all", options.data);
  data::TableWriter<DoubleMatrix> cmvn(out / "cmvn.ark");
  for (const auto& [speaker, s] : stats) cmvn.Write(speaker, s.matrix());
  cmvn.Close();
  WriteFileAtomically(out / "utt2spk", utt2spk);
  WriteFileAtomically(out / "text", text);
  WriteFileAtomically(out / "front-end.toml", OptionsToConfig(options.front_end).ToToml());
  writer.Close();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double speech_s = static_cast<double>(frames) * options.front_end.frame_shift_ms / 1000.0;
  context.Print("{} utterances, {:.2f} hours, {} values per frame, {:.1f} s ({:.0f} x real time)",
                jobs.size() - static_cast<size_t>(skipped), speech_s / 3600.0, front_end.dim(), seconds,
                speech_s / seconds);
  context.SetResult(nlohmann::ordered_json({{"utterances", static_cast<int64_t>(jobs.size()) - skipped},
                                            {"skipped", skipped},
                                            {"frames", frames},
                                            {"dim", front_end.dim()},
                                            {"seconds", seconds}})
                        .dump(2));
}

REGISTER_COMMAND("features", FeaturesCommandOptions, Features,
                 {.summary = "features of a data directory, with statistics per speaker",
                  .description = "Reads every utterance, resamples it to the front end's rate, applies augmentation if "
                                 "asked for, and writes Kaldi tables.",
                  .example = "antiphon features corpora/fsdd/data/train exp/train --front-end.sample-rate 8000\n"
                             "antiphon features train exp/train --copy-speeds 0.9,1.1 --augment.noise-probability 0.5",
                  .positionals = {"data", "out"},
                  .required = {"data", "out"}});

}  // namespace
}  // namespace antiphon::app
