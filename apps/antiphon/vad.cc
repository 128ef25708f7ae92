// antiphon vad: where there is speech in recordings.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rounded_seconds.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "command.h"
#include "data/audio_files.h"
#include "feat/audio.h"
#include "pipeline/voice_activity.h"

namespace antiphon::app {
namespace {

struct VadCommandOptions {
  std::string model;
  std::vector<std::string> files;
  std::string format = "text";
  int channel = -1;
  bool frames = false;
  vad::VadOptions vad;

  template <class V>
  void Visit(V& v) {
    v("model", model,
      "model that tells speech from other sound (recipes/vad.toml makes one), or a bundle that has one");
    v("files", files,
      "recordings: what libsndfile reads, and with ffmpeg installed what that reads; of a folder, all in it and below");
    v("format", format, OneOf{{"text", "segments", "rttm"}},
      "lines FILE BEGIN END; Kaldi's segments, NAME-NUMBER NAME BEGIN END; or RTTM");
    v("channel", channel, Range{-1, 1024}, "of recordings with several, from 0; -1: their mean");
    v("frames", frames, "print lines FILE TIME PROBABILITY, one for each frame, in place of turns");
    vad.VisitTurns(v);
  }
};

// What became of one recording.
struct HeardFile {
  double duration_s = 0;
  std::vector<pipeline::SpeechTurn> turns;
  std::vector<double> probabilities;  // with --frames
  std::string error;
};

data::AudioPieces PiecesOf(const std::filesystem::path& file, int channel) {
  return [file, channel](const auto& sink) {
    feat::AudioReader reader(file, {.channel = channel});
    for (std::vector<float> piece; reader.Read(piece);) {
      ThrowIfCancelled("looking for speech");
      sink(piece);
    }
  };
}

HeardFile Hear(const VadCommandOptions& options, const pipeline::VoiceActivity& activity, const std::string& file) {
  HeardFile heard;
  try {
    const feat::AudioInfo info = feat::ProbeAudio(file);
    heard.duration_s = info.duration_s();
    const data::AudioPieces pieces = PiecesOf(file, options.channel);
    if (options.frames) {
      vad::SpeechStream stream =
          activity.Stream(info.sample_rate_hz, [&](double p) { heard.probabilities.push_back(p); });
      pieces([&](std::span<const float> piece) {
        stream.Accept(piece);
        stream.Take();
      });
      stream.Finish();
    } else {
      heard.turns = activity.Hear(pieces, info.sample_rate_hz).turns;
    }
    for (pipeline::SpeechTurn& turn : heard.turns) turn.end_s = std::min(turn.end_s, heard.duration_s);
  } catch (const Cancelled&) {
    throw;
  } catch (const std::runtime_error& e) {
    heard.error = e.what();
  }
  return heard;
}

std::vector<std::string> IdsOf(const std::vector<std::string>& files) {
  std::vector<std::string> ids = data::NamesOfRecordings(files);
  std::map<std::string, std::string> owners;
  for (size_t i = 0; i < files.size(); ++i) {
    ids[i] = data::CleanId(ids[i]);
    const auto [owner, is_new] = owners.emplace(ids[i], files[i]);
    if (is_new) continue;
    if (IsSamePlace(owner->second, files[i])) {
      Throw<UsageError>("'{}' is given twice: give it once, or take --format text", files[i]);
    }
    Throw<UsageError>("'{}' and '{}' would both be called '{}': rename one of them, or take --format text",
                      owner->second, files[i], ids[i]);
  }
  return ids;
}

std::string Line(const std::string& format, const std::string& file, const std::string& name, size_t number,
                 const pipeline::SpeechTurn& turn) {
  if (format == "segments") {
    return fmt::format("{}-{:05} {} {:.2f} {:.2f}", name, number + 1, name, turn.begin_s, turn.end_s);
  }
  if (format == "rttm") {
    return fmt::format("SPEAKER {} 1 {:.3f} {:.3f} <NA> <NA> speech <NA> <NA>", name, turn.begin_s,
                       turn.end_s - turn.begin_s);
  }
  return fmt::format("{} {:.2f} {:.2f}", file, turn.begin_s, turn.end_s);
}

// `name`: of the recording, in formats that have one.
void Tell(const VadCommandOptions& options, double frame_shift_s, const std::string& file, const std::string& name,
          const HeardFile& heard, CommandContext& context, nlohmann::ordered_json& json) {
  nlohmann::ordered_json entry = {{"file", file}};
  if (!heard.error.empty()) {
    log::Warn("{}", heard.error);
    entry["error"] = heard.error;
    json.push_back(std::move(entry));
    return;
  }
  entry["seconds"] = RoundedSeconds(heard.duration_s);
  if (options.frames) {
    entry["frame_shift_seconds"] = frame_shift_s;
    entry["probabilities"] = nlohmann::ordered_json::array();
    for (size_t frame = 0; frame < heard.probabilities.size(); ++frame) {
      const double probability = heard.probabilities[frame];
      entry["probabilities"].push_back(std::round(1e6 * probability) / 1e6);
      context.PrintLine(fmt::format("{} {:.2f} {:.6f}", file, static_cast<double>(frame) * frame_shift_s, probability));
    }
    json.push_back(std::move(entry));
    return;
  }
  double speech_s = 0;
  entry["turns"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < heard.turns.size(); ++i) {
    const pipeline::SpeechTurn& turn = heard.turns[i];
    speech_s += turn.end_s - turn.begin_s;
    entry["turns"].push_back({{"start", RoundedSeconds(turn.begin_s)}, {"end", RoundedSeconds(turn.end_s)}});
    context.PrintLine(Line(options.format, file, name, i, turn));
  }
  entry["speech_seconds"] = RoundedSeconds(speech_s);
  json.push_back(std::move(entry));
}

void Vad(const VadCommandOptions& asked, CommandContext& context) {
  VadCommandOptions options = asked;
  options.files = data::RecordingsIn(asked.files);
  vad::VadOptions vad = options.vad;
  vad.model = options.model;
  const auto activity = pipeline::VoiceActivity::Load(vad);
  if (activity == nullptr) throw UsageError("--model is no file: a model that tells speech from other sound is needed");
  const bool named = !options.frames && options.format != "text";
  const std::vector<std::string> names = named ? IdsOf(options.files) : options.files;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool all = true;
  ParallelInOrder<HeardFile>(
      options.files.size(), context.threads(), [&](size_t i) { return Hear(options, *activity, options.files[i]); },
      [&](size_t i, HeardFile&& heard) {
        all = all && heard.error.empty();
        Tell(options, activity->model().frame_shift_s(), options.files[i], names[i], heard, context, json);
      });
  context.SetResult(nlohmann::ordered_json({{"recordings", std::move(json)}}).dump(2));
  if (all) return;
  throw InputError(options.files.size() == 1
                       ? "the recording could not be heard; the reason stands above"
                       : "some recordings could not be heard; the reasons stand above, the others are done");
}

REGISTER_COMMAND("vad", VadCommandOptions, Vad,
                 {.summary = "where there is speech in recordings",
                  .description = "Prints the turns of speech that a model of speech and other sound hears, as decode, "
                                 "listen and transcribe take them with --vad.",
                  .example = "antiphon vad --model exp/vad/network/model.safetensors call.wav\n"
                             "antiphon vad --model mine.antiphon --format rttm talks/*.flac",
                  .positionals = {"files"},
                  .required = {"model", "files"}});

}  // namespace
}  // namespace antiphon::app
