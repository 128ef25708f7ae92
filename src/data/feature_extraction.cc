#include "data/feature_extraction.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/audio_source.h"
#include "data/feature_kind.h"
#include "data/feature_parts.h"
#include "data/recording_frames.h"
#include "data/sample_rate.h"
#include "feat/audio_check.h"
#include "feat/cmvn.h"

namespace antiphon::data {
namespace {

using internal::CopyAtSpeed;
using internal::kAugmentedPrefix;
using Copy = internal::SpeechCopy;
using Item = internal::SpeechItem;
using Computed = internal::ComputedFrames;

constexpr size_t kShownFailures = 20;

std::vector<Copy> MakeCopies(const FeatureExtractionOptions& options) {
  std::vector<Copy> copies;
  feat::AugmentOptions loudness;
  loudness.volume_low = options.volume_low;
  loudness.volume_high = options.volume_high;
  loudness.seed = options.augment.seed;
  const bool varied = options.volume_low != 1.0 || options.volume_high != 1.0;
  if (options.originals) copies.push_back({"", varied ? std::make_shared<const feat::Augmenter>(loudness) : nullptr});
  for (const double speed : options.speeds) copies.push_back(CopyAtSpeed(speed, loudness));
  if (options.augmented_copies > 0) {
    // One for all: it holds the recordings of noise and rooms, and what it does follows from the utterance's name.
    const auto augmenter = std::make_shared<const feat::Augmenter>(options.augment);
    for (int i = 1; i <= options.augmented_copies; ++i) {
      copies.push_back({fmt::format("{}{}-", kAugmentedPrefix, i), augmenter});
    }
  }
  if (copies.empty())
    throw UsageError("originals = false leaves nothing to compute without speeds or augmented-copies");
  return copies;
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

// Stores the frames; what is returned has none. Statistics are added once all are there.
Computed ComputeInParts(const Item& item, const AudioSource& audio, const feat::FrontEnd& front_end,
                        const FeatureExtractionOptions& options, FeaturePartsWriter& parts, feat::CmvnStats& cmvn,
                        int64_t& frames) {
  Computed result;
  try {
    AudioSource::Stream stream = audio.Open(*item.utterance, options.channel);
    result.rate_hz = stream.reader.sample_rate_hz();
    result.channels_mixed = stream.reader.channels_mixed();
    const StoredParts stored = WithContext([&] { return parts.Write(item.utt_id, front_end, stream.reader); },
                                           [&] { return fmt::format("utterance '{}'", item.utt_id); });
    result.audio_s = stored.audio_s;
    result.zeros = internal::Flat(stored.zeros);
    cmvn.Add(stored.cmvn);
    frames += stored.frames;
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& e) {
    result.error = internal::ReasonOf(e);
  }
  return result;
}

[[noreturn]] void RefuseFailures(const std::vector<std::pair<std::string, std::string>>& failed, size_t total) {
  std::string text = fmt::format("{} of {} utterances cannot be computed{}:", failed.size(), total,
                                 failed.size() < total ? " (--on-error skip leaves them out)" : "");
  // A recording that cannot be read spoils all of its utterances, for one reason.
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  std::unordered_map<std::string_view, size_t> places;  // in `reasons`, by reason: all may differ
  for (const auto& [utt_id, why] : failed) {
    const auto [place, is_new] = places.emplace(why, reasons.size());
    if (is_new) reasons.push_back({why, {}});
    reasons[place->second].second.push_back(utt_id);
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

// text (if there is any), utt2spk, spk2utt of the items that were written; none stays of an earlier extraction.
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
  if (!text.empty()) {
    WriteFileAtomically(out / "text", text);
  } else {
    std::filesystem::remove(out / "text");
  }
  WriteFileAtomically(out / "utt2spk", utt2spk);
  WriteFileAtomically(out / "spk2utt", spk2utt);
}

// Which noise was added to which utterance: labels for a side task of training.
void WriteNoises(const std::vector<const Item*>& items, const std::filesystem::path& out) {
  std::filesystem::remove(out / "utt2noise");
  std::string lines;
  bool any = false;
  for (const Item* item : items) {
    const feat::Augmenter* augmenter = item->copy->augmenter.get();
    any = any || (augmenter != nullptr && augmenter->adds_noise());
    lines += fmt::format("{} {}\n", item->utt_id, augmenter != nullptr ? augmenter->NoiseLabel(item->utt_id) : "clean");
  }
  if (any) WriteFileAtomically(out / "utt2noise", lines);
}

// Where utterances hold nothing but zeros, for whoever looks for words there.
void WriteZeros(const std::map<std::string, std::vector<double>>& zeros, const std::filesystem::path& out) {
  std::filesystem::remove(out / kZerosFile);
  std::string lines;
  for (const auto& [utt_id, times] : zeros) {
    lines += utt_id;
    for (const double time : times) lines += fmt::format(" {:.6f}", time);
    lines += "\n";
  }
  if (!lines.empty()) WriteFileAtomically(out / kZerosFile, lines);
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
    lines.append(utt_id).append(" ").append(line).append("\n");
  }
  WriteFileAtomically(out / "failed.txt", lines);
}

// What a person should know of these features.
void Remark(const FeatureExtractionResult& result, int lowest_rate, bool for_model) {
  const std::string narrow = for_model ? feat::NarrowBandRemark(lowest_rate, result.sample_rate_hz)
                                       : feat::UpsamplingRemark(lowest_rate, result.sample_rate_hz);
  if (!narrow.empty()) log::Warn("{}", narrow);
  if (result.channels_mixed > 0) {
    log::Warn(
        "{} utterances are the mean of their recordings' channels; --channels each (decode, align, prepare) makes each "
        "an utterance of its own, --channel (features) takes one of them",
        result.channels_mixed);
  }
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
  if ((options.native_rate || options.usual_rate) && options.like.empty())
    front_end_options.sample_rate_hz = RateOfData(dir, audio, options.usual_rate, num_threads);
  const std::vector<Copy> copies = MakeCopies(options);
  const std::vector<Item> items = internal::MakeItems(dir, copies);
  const internal::RecordingOptions recording = {options.channel, options.silent_recordings, options.long_in_parts};
  front_end_options = internal::WithMeanPrior(front_end_options, items, audio, recording, num_threads);
  const feat::FrontEnd front_end(front_end_options);
  FeatureExtractionResult result;
  result.dim = front_end.dim();
  result.sample_rate_hz = front_end_options.sample_rate_hz;
  int lowest_rate = result.sample_rate_hz;  // of the recordings
  std::map<std::string, feat::CmvnStats> cmvn;
  std::vector<const Item*> written;
  std::map<std::string, std::vector<double>> zeros;
  std::optional<TableWriter<Matrix>> writer;
  std::optional<FeaturePartsWriter> parts;
  if (team.is_first()) {
    writer.emplace(out / "feats.ark", TableWriteOptions{.coding = MatrixCodingFromName(options.coding)});
    parts.emplace(out, MatrixCodingFromName(options.coding));
  }
  SpreadInOrder<Computed>(
      team, team.size() > 1 ? Lengths(items, dir) : std::vector<int64_t>(items.size(), 1), num_threads,
      Spread::kToFirst,
      [&](size_t i) {
        ThrowIfCancelled("computing features");
        return internal::TryFramesOf(items[i], audio, front_end, recording);
      },
      [&](size_t i, Computed&& computed) {
        const Item& item = items[i];
        if (computed.in_parts) {
          computed = ComputeInParts(item, audio, front_end, options, *parts, cmvn[item.speaker], result.frames);
        } else if (computed.error.empty()) {
          writer->Write(item.utt_id, computed.frames);
          cmvn[item.speaker].Add(computed.frames);
          result.frames += computed.frames.rows();
        }
        if (!computed.error.empty()) {
          result.failed.emplace_back(item.utt_id, computed.error);
        } else {
          written.push_back(&item);
          if (!computed.zeros.empty()) zeros[item.utt_id] = computed.zeros;
          result.audio_s += computed.audio_s;
          if (computed.rate_hz != result.sample_rate_hz) ++result.resampled;
          if (computed.channels_mixed > 1) ++result.channels_mixed;
          lowest_rate = std::min(lowest_rate, computed.rate_hz);
        }
        if (progress) progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(items.size()));
      });
  if (!team.is_first()) {
    team.Exchange("", Spread::kToAll);
    return result;
  }
  Remark(result, lowest_rate, options.for_model || !options.like.empty());
  result.utterances = static_cast<int64_t>(written.size());
  if (!result.failed.empty() && (options.on_error == "fail" || written.empty()))
    RefuseFailures(result.failed, items.size());
  if (written.empty()) Throw<InputError>("'{}' holds no utterances", dir.folder().string());
  writer->Close();
  parts->Close();
  std::erase_if(cmvn, [](const auto& of_speaker) { return of_speaker.second.count() == 0; });
  if (front_end_options.mean_window == 0) {
    WriteCmvn(cmvn, out);
  } else {  // nothing is left to normalise
    for (const char* name : {"cmvn.ark", "cmvn.scp"}) std::filesystem::remove(out / name);
  }
  WriteZeros(zeros, out);
  WriteLists(written, out);
  WriteNoises(written, out);
  WriteFailures(result, out);
  WriteFileAtomically(out / "front_end.toml", OptionsToConfig(front_end_options).ToToml());
  team.Exchange("", Spread::kToAll);
  return result;
}

}  // namespace antiphon::data
