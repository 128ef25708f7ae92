// antiphon listen: words of speech that is still being said.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "api/live_recognizer.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/io_error.h"
#include "base/log.h"
#include "command.h"
#include "data/audio_files.h"
#include "feat/audio.h"
#include "feat/audio_check.h"
#include "pipeline/load_profile.h"
#include "pipeline/load_rescorer.h"
#include "pipeline/rounded_seconds.h"
#include "pipeline/speaker_memory.h"

namespace antiphon::app {
namespace {

struct ListenOptions {
  std::string model, graph, profile, speaker, rescore_arpa, graph_arpa;
  std::string speakers = "speakers";
  std::string input = "-";
  std::string microphone_name = "default";
  bool microphone = false;
  bool partial = true;
  int rate = 0;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  LiveOptions live;
  decode::RecognizeOptions recognize;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file of a network");
    v("graph", graph, "folder that antiphon graph made for this model");
    v("profile", profile, "speaker's profile (antiphon adapt makes it) for all that is heard");
    v("speaker", speaker,
      "name of who speaks: begins with what was heard of them before, and keeps what is heard now; empty: an "
      "unknown speaker");
    v("speakers", speakers, "folder with a file for each speaker, for --speaker");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's when an utterance is over");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
    v("input", input,
      "'-': samples on standard input (16 bit, little endian, one channel), or an audio file, or a folder of them");
    v("microphone", microphone, "listen to the microphone, by ALSA's arecord");
    v("microphone-name", microphone_name, "of the microphone, as arecord -L lists them");
    v("rate", rate, Range{0, 384000}, "Hz of the samples on standard input; 0: the model's");
    v("partial", partial, "print what is understood so far, too");
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    live.Visit(v);
    recognize.Visit(v);
    v.Group("nnet", nnet);
  }
};

nlohmann::ordered_json Describe(const LiveResult& result, const decode::Graph& graph, double shift_s) {
  const auto word = [&](int32_t id) { return graph.words()[static_cast<size_t>(id)]; };
  nlohmann::ordered_json json = {{"final", result.final},
                                 {"start", pipeline::RoundedSeconds(result.begin_frame * shift_s)},
                                 {"end", pipeline::RoundedSeconds((result.begin_frame + result.num_frames) * shift_s)}};
  std::string text;
  const auto& ids = result.final ? result.recognition.best.words : result.partial.words;
  for (const int32_t id : ids) text += (text.empty() ? "" : " ") + word(id);
  json["text"] = text;
  if (!result.final) return json;
  nlohmann::ordered_json words = nlohmann::ordered_json::array();
  const auto& times = result.recognition.times.words;
  for (size_t i = 0; i < times.size(); ++i) {
    const double start = (result.begin_frame + times[i].begin_frame) * shift_s;
    words.push_back({{"word", word(times[i].word)},
                     {"start", pipeline::RoundedSeconds(start)},
                     {"end", pipeline::RoundedSeconds(start + times[i].num_frames * shift_s)}});
    if (i < result.recognition.confidences.size()) words.back()["confidence"] = result.recognition.confidences[i];
  }
  json["words"] = words;
  if (!result.recognition.remark.empty()) json["remark"] = result.recognition.remark;
  return json;
}

// Pieces of 16-bit samples until the end; an odd byte at the end is left out.
void ReadSamples(std::FILE* file, LiveRecognizer& live) {
  std::vector<int16_t> piece(static_cast<size_t>(live.sample_rate_hz() / 10));
  std::vector<float> samples;
  while (const size_t count = std::fread(piece.data(), sizeof(int16_t), piece.size(), file)) {
    ThrowIfCancelled("listening");
    samples.assign(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(count));
    live.Accept(samples);
  }
}

void Microphone(const ListenOptions& options, LiveRecognizer& live) {
  // The name goes to arecord through a shell.
  if (options.microphone_name.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:,=._-") != std::string::npos) {
    Throw<UsageError>("'{}' is no name of a microphone; arecord -L lists them", options.microphone_name);
  }
  const std::string command =
      fmt::format("exec arecord -q -t raw -f S16_LE -c 1 -r {} -D {}", live.sample_rate_hz(), options.microphone_name);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw IoError("arecord could not be started");
  ReadSamples(pipe, live);
  if (pclose(pipe) != 0) {
    throw IoError("arecord failed: install the package alsa-utils, and see with `arecord -L` which devices there are");
  }
}

void ReadStandardInput(const ListenOptions& options, LiveRecognizer& live) {
  if (options.rate != 0 && options.rate != live.sample_rate_hz()) {
    Throw<UsageError>("the samples come at {} Hz, the model takes {} Hz: convert them first, for example with sox",
                      options.rate, live.sample_rate_hz());
  }
  ReadSamples(stdin, live);
}

// Returns what a person should know of the file.
std::vector<std::string> HearFile(const std::filesystem::path& file, LiveRecognizer& live) {
  std::vector<std::string> remarks;
  feat::AudioReader reader(file);
  if (const std::string narrow = feat::NarrowBandRemark(reader.sample_rate_hz(), live.sample_rate_hz());
      !narrow.empty()) {
    remarks.push_back(narrow);
  }
  if (reader.channels_mixed() > 1) {
    remarks.push_back(fmt::format("the mean of {} channels is heard; antiphon decode --channels each takes them apart",
                                  reader.channels_mixed()));
  }
  // Seconds at a time, so that frames are scored in large batches.
  feat::Resampler resampler(reader.sample_rate_hz(), live.sample_rate_hz());
  std::vector<float> samples;
  for (std::vector<float> piece; reader.Read(piece);) {
    ThrowIfCancelled("listening");
    samples.clear();
    resampler.Accept(piece, samples);
    live.Accept(samples);
  }
  samples.clear();
  resampler.Finish(samples);
  live.Accept(samples);
  return remarks;
}

std::string About(const std::string& recording, const std::string& remark) {
  return recording.empty() ? remark : recording + ": " + remark;
}

// What is known of --speaker.
class Remembered {
 public:
  Remembered(const ListenOptions& options, const AcousticModel& model) : model_(model) {
    if (options.speaker.empty()) return;
    if (!UsesMemory(model)) {
      throw UsageError(
          "--speaker is for models that remember: with an i-vector extractor, or features that lose the mean of what "
          "was heard so far (mean-window)");
    }
    file_ = MemoryFile(options.speakers, options.speaker);
    memory_ = std::filesystem::exists(file_) ? LoadMemory(file_, model) : RememberedSpeaker{.speaker = options.speaker};
    MakeFolder(options.speakers);
  }
  /// Null: an unknown speaker.
  RememberedSpeaker* memory() { return memory_ ? &*memory_ : nullptr; }
  void Keep() const {
    if (memory_) SaveMemory(*memory_, model_, file_);
  }

 private:
  const AcousticModel& model_;
  std::filesystem::path file_;
  std::optional<RememberedSpeaker> memory_;
};

void Listen(const ListenOptions& options, CommandContext& context) {
  // One stream keeps part of a core busy; a second thread would mostly wait, which libgomp does at full speed.
  if (!context.config().Has("threads")) SetComputeThreads(1);
  infer::NnetScorerOptions network = options.nnet;
  network.adaptable = network.adaptable || !options.profile.empty();
  const auto model = AcousticModel::Load(options.model, network);
  std::shared_ptr<const infer::BoundProfile> profile;
  if (!options.profile.empty()) profile = LoadBoundProfile(options.profile, model->network().get());
  Remembered memory(options, *model);
  const decode::Graph graph = decode::Graph::Load(options.graph, model->hmm());
  const auto rescorer = pipeline::LoadRescorer(options.rescore_arpa, options.graph_arpa, graph);
  const double scale =
      options.lm_weight > 0 ? 1.0 / options.lm_weight : decode::AcousticScale(options.recognize.search, model->hmm());
  nlohmann::ordered_json utterances = nlohmann::ordered_json::array();  // with --json alone: a microphone has no end
  double shift_s = 0.01;
  std::string recording;  // of several
  const auto print = [&](const LiveResult& result) {
    if (!result.final && !options.partial) return;
    auto json = Describe(result, graph, shift_s);
    if (!recording.empty()) json["recording"] = recording;
    context.PrintLine(json.dump());
    context.out().flush();
    if (result.final && context.json()) utterances.push_back(json);
  };
  std::vector<std::string> remarks;
  const auto hear = [&](const std::function<void(LiveRecognizer&)>& feed) {
    LiveRecognizer live(*model, graph, options.recognize, {scale, options.word_penalty}, options.live, print, profile,
                        memory.memory(), rescorer.get());
    shift_s = live.frame_shift_s();
    feed(live);
    live.Finish();
    memory.Keep();
    for (const std::string& remark : live.AudioRemarks()) remarks.push_back(About(recording, remark));
  };
  if (options.microphone) {
    hear([&](LiveRecognizer& live) { Microphone(options, live); });
  } else if (options.input == "-") {
    hear([&](LiveRecognizer& live) { ReadStandardInput(options, live); });
  } else {
    const data::AudioFiles files(options.input);
    for (const std::string& path : files.paths()) {
      if (files.paths().size() > 1) recording = path;
      hear([&](LiveRecognizer& live) {
        for (const std::string& remark : HearFile(files.folder() / path, live)) {
          remarks.push_back(About(recording, remark));
        }
      });
    }
  }
  for (const std::string& remark : remarks) log::Warn("{}", remark);
  context.SetResult(nlohmann::ordered_json{{"utterances", utterances}, {"audio_remarks", remarks}}.dump());
}

REGISTER_COMMAND(
    "listen", ListenOptions, Listen,
    {.summary = "recognise speech while it is being said",
     .description = "Reads samples from standard input, a file or the microphone and prints a line of JSON for what is "
                    "understood so far, and one with times and confidences for each utterance that ended.",
     .example = "arecord -q -t raw -f S16_LE -c 1 -r 16000 | antiphon listen --model exp/net/model.safetensors --graph "
                "exp/graph --nnet.precision int8\n"
                "antiphon listen --model exp/net/model.safetensors --graph exp/graph call.wav",
     .positionals = {"input"},
     .required = {"model", "graph"},
     .common = {"profile", "speaker", "microphone", "microphone-name", "rate", "partial", "lm-weight", "word-penalty",
                "beam", "rescore-arpa", "graph-arpa", "hotwords", "word-list", "nnet.precision", "nnet.lazy"}});

}  // namespace
}  // namespace antiphon::app
