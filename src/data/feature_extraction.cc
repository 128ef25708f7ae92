#include "data/feature_extraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/audio_source.h"
#include "feat/audio_check.h"
#include "feat/cmvn.h"

namespace antiphon::data {
namespace {

constexpr size_t kShownFailures = 20;

// One version of the recordings.
struct Copy {
  std::string prefix;  // of utterance and speaker
  std::optional<feat::Augmenter> augmenter;
};

// An utterance in one version, by its name in the output.
struct Item {
  std::string utt_id;
  std::string speaker;
  const Utterance* utterance = nullptr;
  const Copy* copy = nullptr;
};

constexpr char kSpeedPrefix[] = "sp";
constexpr char kAugmentedPrefix[] = "aug";

// What follows "sp0.9-" or "aug1-" if the name begins like that, else the whole name.
std::string_view WithoutPrefix(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return name;
  const size_t end = name.find_first_not_of("0123456789.", prefix.size());
  const bool number = end != std::string_view::npos && end > prefix.size() && name[end] == '-';
  return number ? name.substr(end + 1) : name;
}

struct Computed {
  Matrix frames;
  double audio_s = 0.0;
  int rate_hz = 0;  // of the recording
  std::string error;
  template <class V>
  void VisitFields(V& v) {
    v(frames);
    v(audio_s);
    v(rate_hz);
    v(error);
  }
};

std::vector<Copy> MakeCopies(const FeatureExtractionOptions& options) {
  std::vector<Copy> copies;
  if (options.originals) copies.push_back({"", std::nullopt});
  for (const double speed : options.speeds) {
    feat::AugmentOptions augment;
    augment.speeds = {speed};
    copies.push_back({fmt::format("{}{}-", kSpeedPrefix, speed), feat::Augmenter(augment)});
  }
  for (int i = 1; i <= options.augmented_copies; ++i) {
    copies.push_back({fmt::format("{}{}-", kAugmentedPrefix, i), feat::Augmenter(options.augment)});
  }
  if (copies.empty())
    throw UsageError("originals = false leaves nothing to compute without speeds or augmented-copies");
  return copies;
}

std::vector<Item> MakeItems(const DataDir& dir, const std::vector<Copy>& copies) {
  std::vector<Item> items;
  for (const Copy& copy : copies) {
    for (const Utterance& utterance : dir.utterances()) {
      items.push_back({copy.prefix + utterance.utt_id, copy.prefix + utterance.speaker, &utterance, &copy});
    }
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.utt_id < b.utt_id; });
  for (size_t i = 1; i < items.size(); ++i) {
    if (items[i].utt_id == items[i - 1].utt_id) {
      Throw<InputError>("utterance '{}' and an augmented copy have the same name; rename the utterance",
                        items[i].utt_id);
    }
  }
  return items;
}

// Milliseconds where they are known, else the recordings' sizes; all of a directory in one measure.
std::vector<int64_t> Lengths(const std::vector<Item>& items, const DataDir& dir) {
  const auto known = [](const Item& item) { return item.utterance->duration_s >= 0; };
  const bool durations = std::all_of(items.begin(), items.end(), known);
  std::vector<int64_t> lengths;
  for (const Item& item : items) {
    const Utterance& utterance = *item.utterance;
    if (durations) {
      lengths.push_back(static_cast<int64_t>(1000 * utterance.duration_s));
      continue;
    }
    lengths.push_back(1);
    try {
      const std::filesystem::path file = dir.ResolveAudio(dir.recordings()[utterance.recording]);
      if (!file.empty()) lengths.back() = static_cast<int64_t>(std::filesystem::file_size(file));
    } catch (const std::exception&) {
      continue;  // whoever reads it says what is wrong
    }
  }
  return lengths;
}

// The lowest rate of the recordings: nothing is invented by upsampling. What cannot be opened says so later, with its
// utterance.
int LowestRate(const DataDir& dir, const AudioSource& audio, int num_threads) {
  int lowest = 0;
  ParallelInOrder<int>(
      dir.recordings().size(), num_threads,
      [&](size_t i) {
        try {
          return audio.Probe(dir.recordings()[i]).sample_rate_hz;
        } catch (const Error&) {
          return 0;
        }
      },
      [&](size_t, int rate) {
        if (rate > 0) lowest = lowest == 0 ? rate : std::min(lowest, rate);
      });
  if (lowest == 0)
    Throw<InputError>("none of the {} recordings of '{}' can be read as audio; 'antiphon prepare' says why",
                      dir.recordings().size(), dir.folder().string());
  return lowest;
}

void RequireSound(const feat::Waveform& wave) {
  feat::AudioCheck check;
  check.Accept(wave.samples);
  if (check.silent()) Throw<InputError>("there is nothing to hear: {}", check.Remarks().front());
}

Computed Compute(const Item& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                 const FeatureExtractionOptions& options) {
  Computed result;
  try {
    const int rate = front_end.options().sample_rate_hz;
    feat::Waveform wave = audio.Read(*item.utterance, options.channel);
    if (!options.silent_recordings) RequireSound(wave);
    result.rate_hz = wave.sample_rate_hz;
    wave = feat::Resample(std::move(wave), rate);
    if (item.copy->augmenter) wave = item.copy->augmenter->Apply(wave, item.utt_id);
    result.audio_s = wave.duration_s();
    result.frames = front_end.Compute(wave.samples, feat::UtteranceSeed(item.utt_id));
    if (result.frames.rows() == 0) {
      result.error = fmt::format("{:.4f} s of audio give no frame; at least {} ms are needed", wave.duration_s(),
                                 front_end.options().frame_length_ms);
    }
  } catch (const Error& e) {
    // Without the outermost context, which is the utterance: who reads the error has it already.
    Error reason(e.message());
    for (size_t i = 0; i + 1 < e.contexts().size(); ++i) reason.AddContext(e.contexts()[i]);
    result.error = reason.what();
  }
  return result;
}

[[noreturn]] void RefuseFailures(const std::vector<std::pair<std::string, std::string>>& failed, size_t total) {
  std::string text = fmt::format("{} of {} utterances cannot be computed{}:", failed.size(), total,
                                 failed.size() < total ? " (--on-error skip leaves them out)" : "");
  // A recording that cannot be read spoils all of its utterances, for one reason.
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const auto& [utt_id, its_reason] : failed) {
    const std::string& why = its_reason;  // for the lambda: clang 14 captures no structured binding
    auto same = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == why; });
    if (same == reasons.end()) same = reasons.insert(reasons.end(), {why, {}});
    same->second.push_back(utt_id);
  }
  for (size_t i = 0; i < std::min(reasons.size(), kShownFailures); ++i) {
    const auto& [why, utterances] = reasons[i];
    text += fmt::format("\n  {}{}: {}", utterances[0],
                        utterances.size() > 1 ? fmt::format(" and {} more", utterances.size() - 1) : "", why);
  }
  if (reasons.size() > kShownFailures) {
    text += fmt::format("\n  … and {} more reasons", reasons.size() - kShownFailures);
  }
  throw InputError(text);
}

// text, utt2spk, spk2utt of the items that were written.
void WriteLists(const std::vector<const Item*>& items, const std::filesystem::path& out) {
  std::string text, utt2spk, spk2utt;
  std::map<std::string, std::string> utterances_of;
  for (const Item* item : items) {
    if (item->utterance->has_transcript)
      text += fmt::format("{} {}\n", item->utt_id, fmt::join(item->utterance->words, " "));
    utt2spk += fmt::format("{} {}\n", item->utt_id, item->speaker);
    utterances_of[item->speaker] += " " + item->utt_id;
  }
  for (const auto& [speaker, utterances] : utterances_of) spk2utt += speaker + utterances + "\n";
  if (!text.empty()) WriteFileAtomically(out / "text", text);
  WriteFileAtomically(out / "utt2spk", utt2spk);
  WriteFileAtomically(out / "spk2utt", spk2utt);
}

// Which noise was added to which utterance: labels for a side task of training.
void WriteNoises(const std::vector<const Item*>& items, const std::filesystem::path& out) {
  std::filesystem::remove(out / "utt2noise");
  std::string lines;
  bool any = false;
  for (const Item* item : items) {
    const feat::Augmenter* augmenter = item->copy->augmenter ? &*item->copy->augmenter : nullptr;
    any = any || (augmenter != nullptr && augmenter->adds_noise());
    lines += fmt::format("{} {}\n", item->utt_id, augmenter != nullptr ? augmenter->NoiseLabel(item->utt_id) : "clean");
  }
  if (any) WriteFileAtomically(out / "utt2noise", lines);
}

void WriteCmvn(const std::map<std::string, feat::CmvnStats>& stats, const std::filesystem::path& out) {
  TableWriter<DoubleMatrix> writer(out / "cmvn.ark");
  for (const auto& [speaker, statistics] : stats) writer.Write(speaker, statistics.matrix());
  writer.Close();
}

void WriteFailures(const FeatureExtractionResult& result, const std::filesystem::path& out) {
  std::filesystem::remove(out / "failed.txt");
  if (result.failed.empty()) return;
  std::string lines;
  for (const auto& [utt_id, why] : result.failed) {
    std::string line = why;
    std::replace(line.begin(), line.end(), '\n', ' ');
    lines += utt_id + " " + line + "\n";
  }
  WriteFileAtomically(out / "failed.txt", lines);
}

}  // namespace

feat::FrontEndOptions ReadFrontEnd(const std::filesystem::path& folder) {
  return ReadOptions<feat::FrontEndOptions>(Config::Load(folder / "front_end.toml"));
}

FeatureExtractionResult ExtractFeatures(const DataDir& dir, const FeatureExtractionOptions& options,
                                        const std::filesystem::path& out, int num_threads,
                                        const std::function<void(int64_t, int64_t)>& progress, Team& team) {
  const AudioSource audio(dir);
  feat::FrontEndOptions front_end_options = options.like.empty() ? options.front_end : ReadFrontEnd(options.like);
  if (options.native_rate && options.like.empty())
    front_end_options.sample_rate_hz = LowestRate(dir, audio, num_threads);
  const feat::FrontEnd front_end(front_end_options);
  const std::vector<Copy> copies = MakeCopies(options);
  const std::vector<Item> items = MakeItems(dir, copies);
  FeatureExtractionResult result;
  result.dim = front_end.dim();
  result.sample_rate_hz = front_end_options.sample_rate_hz;
  int lowest_rate = result.sample_rate_hz;  // of the recordings
  std::map<std::string, feat::CmvnStats> cmvn;
  std::vector<const Item*> written;
  std::optional<TableWriter<Matrix>> writer;
  if (team.is_first())
    writer.emplace(out / "feats.ark", TableWriteOptions{.coding = MatrixCodingFromName(options.coding)});
  SpreadInOrder<Computed>(
      team, team.size() > 1 ? Lengths(items, dir) : std::vector<int64_t>(items.size(), 1), num_threads,
      Spread::kToFirst,
      [&](size_t i) {
        ThrowIfCancelled("computing features");
        return Compute(items[i], audio, front_end, options);
      },
      [&](size_t i, Computed&& computed) {
        const Item& item = items[i];
        if (!computed.error.empty()) {
          result.failed.emplace_back(item.utt_id, computed.error);
        } else {
          writer->Write(item.utt_id, computed.frames);
          cmvn[item.speaker].Add(computed.frames);
          written.push_back(&item);
          result.frames += computed.frames.rows();
          result.audio_s += computed.audio_s;
          if (computed.rate_hz != result.sample_rate_hz) ++result.resampled;
          lowest_rate = std::min(lowest_rate, computed.rate_hz);
        }
        if (progress) progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(items.size()));
      });
  if (!team.is_first()) {
    team.Exchange("", Spread::kToAll);
    return result;
  }
  if (const std::string narrow = feat::NarrowBandRemark(lowest_rate, result.sample_rate_hz); !narrow.empty()) {
    log::Warn("{}", narrow);
  }
  result.utterances = static_cast<int64_t>(written.size());
  if (!result.failed.empty() && (options.on_error == "fail" || written.empty()))
    RefuseFailures(result.failed, items.size());
  if (written.empty()) Throw<InputError>("'{}' holds no utterances", dir.folder().string());
  writer->Close();
  WriteCmvn(cmvn, out);
  WriteLists(written, out);
  WriteNoises(written, out);
  WriteFailures(result, out);
  WriteFileAtomically(out / "front_end.toml", OptionsToConfig(front_end_options).ToToml());
  team.Exchange("", Spread::kToAll);
  return result;
}

std::string_view OriginalName(std::string_view name) {
  const std::string_view unspeeded = WithoutPrefix(name, kSpeedPrefix);
  return unspeeded.size() < name.size() ? unspeeded : WithoutPrefix(name, kAugmentedPrefix);
}

}  // namespace antiphon::data
