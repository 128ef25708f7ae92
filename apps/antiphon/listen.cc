// antiphon listen: words of speech that is still being said.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "antiphon/recognizer.h"
#include "antiphon/stream.h"
#include "api/describe.h"
#include "api/listening_options.h"
#include "api/recognizer_impl.h"
#include "api/stream.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/printed_json.h"
#include "command.h"
#include "data/audio_files.h"
#include "data/microphone.h"
#include "feat/audio.h"
#include "pipeline/speaker_memory.h"
#include "report/level_meter.h"

namespace antiphon::app {
namespace {

struct ListenOptions {
  std::string model, graph, profile, speaker, written;
  std::string speakers = "speakers";
  std::string input = "-";
  bool microphone = false;
  bool level_meter = true;
  data::MicrophoneOptions microphone_options;
  bool partial = true;
  int rate = 0;
  ListeningOptions listening;

  template <class V>
  void Visit(V& v) {
    v("model", model, "what antiphon bundle made, or the model file of a network");
    v("graph", graph, "folder that antiphon graph made for this model; empty: the bundle's");
    v("profile", profile, "speaker's profile (antiphon adapt makes it) for all that is heard");
    v("speaker", speaker,
      "name of who speaks: begins with what was heard of them before, and keeps what is heard now; empty: an "
      "unknown speaker");
    v("speakers", speakers, "folder with a file for each speaker, for --speaker");
    v("input", input,
      "'-': samples on standard input (16 bit, little endian, one channel), or an audio file, or a folder of them");
    v("microphone", microphone, "listen to the microphone, until Ctrl-C");
    microphone_options.Visit(v);
    v("level-meter", level_meter, "show on a terminal how loud the microphone is");
    v("rate", rate, Range{0, 384000}, "Hz of the samples on standard input; 0: the model's");
    v("partial", partial, "print what is understood so far, too");
    v("written", written,
      "as people write it beside the words, with numbers, full stops and capitals: english, what antiphon "
      "written made, or bundle, the bundle's own; empty: the words alone");
    listening.Visit(v);
  }
};

RecognizerOptions RecognizerOptionsOf(const ListenOptions& options) {
  RecognizerOptions all = RecognizerOptionsOf(options.listening, !options.profile.empty(), ComputeThreads());
  all.written = options.written;
  return all;
}

StreamSettings StreamSettingsOf(const ListenOptions& options) {
  StreamSettings settings = SettingsOf(options.listening.live);
  settings.partial = options.partial;
  return settings;
}

using Events = std::vector<StreamEvent>;
using Print = std::function<void(const Events&)>;

// Who asks to stop gets what was heard until then: live speech has no other end.
void EndHearing(Stream& stream, const Print& print) {
  if (CancelRequested()) ResetCancel();
  print(stream.End());
}

// Whether somebody asked to stop, which is forgotten then: a stream would refuse the samples that are there already.
bool TakeRequest() {
  if (!CancelRequested()) return false;
  ResetCancel();
  return true;
}

// Until somebody asks to stop, which is how a microphone ends.
void HearMicrophone(const ListenOptions& options, int rate_hz, Stream& stream, const Print& print) {
  data::Microphone microphone(options.microphone_options, rate_hz);
  log::Info("listening; Ctrl-C ends it");
  report::LevelMeter meter(rate_hz,
                           options.level_meter ? report::ProgressSink::Default() : report::ProgressSink::Silent());
  for (bool asked = false; !asked;) {
    const std::vector<int16_t> samples = microphone.Read();
    if (samples.empty()) break;
    asked = TakeRequest();
    const Events events = stream.Accept(samples);
    if (!events.empty()) meter.Clear();
    print(events);
    meter.Accept(samples);
  }
  meter.Clear();
  EndHearing(stream, print);
  microphone.RequireGoodEnd();
}

constexpr size_t kMarkBytes = 12;

// Headers of audio files, whose bytes would be heard as noise.
void RefuseFile(std::span<const std::byte> begin) {
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()), std::min(begin.size(), kMarkBytes));
  constexpr std::array<std::string_view, 8> kMarks = {"RIFF", "RF64", "fLaC", "OggS",
                                                      "FORM", ".snd", "ID3",  "\x1A\x45\xDF\xA3"};
  const auto is_mark = [&](std::string_view mark) { return bytes.starts_with(mark); };
  const bool is_mp4 = bytes.size() == kMarkBytes && bytes.substr(4, 4) == "ftyp";
  if (!is_mp4 && std::none_of(kMarks.begin(), kMarks.end(), is_mark)) return;
  throw InputError(
      "standard input is an audio file, and samples alone are expected (16 bit, little endian, one channel): name the "
      "file instead, or let arecord write them with -t raw, sox with -t raw, ffmpeg with -f s16le");
}

void ReadStandardInput(int rate_hz, Stream& stream, const Print& print) {
  constexpr double kBetweenLooksS = 0.1;  // at whether somebody asks to stop
  std::vector<int16_t> piece(static_cast<size_t>(rate_hz / 10));
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(piece));
  size_t odd = 0;  // bytes that wait: of half a sample, or of a file's mark; at the end they are left out
  for (bool asked = false, begins = true; !asked;) {
    const auto count = ReadSome(STDIN_FILENO, bytes.subspan(odd), kBetweenLooksS, "standard input");
    asked = TakeRequest();
    if (!count) continue;
    if (*count == 0) break;
    const size_t here = odd + *count;
    if (begins && here < kMarkBytes) {
      odd = here;
      continue;
    }
    if (std::exchange(begins, false)) RefuseFile(bytes.first(here));
    print(stream.Accept(std::span(piece).first(here / sizeof(int16_t))));
    odd = here % sizeof(int16_t);
    if (odd > 0) bytes[0] = bytes[here - 1];
  }
  EndHearing(stream, print);
}

// Thousands of samples at a time, so that frames are scored in large batches.
void HearFile(feat::AudioReader& reader, Stream& stream, const Print& print) {
  constexpr float kFullScale = 32768;
  for (std::vector<float> piece; reader.Read(piece);) {
    ThrowIfCancelled("listening");
    for (float& sample : piece) sample /= kFullScale;
    print(stream.Accept(piece));
  }
}

std::string About(const std::string& recording, const std::string& remark) {
  return recording.empty() ? remark : recording + ": " + remark;
}

// What is known of --speaker; without one, of nobody.
class Remembered {
 public:
  Remembered(const ListenOptions& options, const Recognizer& recognizer)
      : recognizer_(recognizer), memory_(options.speaker) {
    if (options.speaker.empty()) return;
    if (!recognizer.UsesMemory()) {
      throw UsageError(
          "--speaker is for models that remember: with an i-vector extractor, with speakers' transforms, or with "
          "features whose mean is taken out");
    }
    file_ = MemoryFile(options.speakers, options.speaker);
    if (std::filesystem::exists(file_)) memory_ = recognizer.LoadMemory(file_.string());
    MakeFolder(options.speakers);
  }
  /// What the next recording begins with.
  SpeakerMemory memory() const { return file_.empty() ? SpeakerMemory() : memory_; }
  void Keep(const SpeakerMemory& heard) {
    if (file_.empty()) return;
    memory_ = heard;
    recognizer_.SaveMemory(memory_, file_.string());
  }

 private:
  const Recognizer& recognizer_;
  std::filesystem::path file_;  // empty: an unknown speaker
  SpeakerMemory memory_;
};

class Listening {
 public:
  Listening(const ListenOptions& options, CommandContext& context)
      : options_(options),
        context_(context),
        recognizer_(RecognizerAccess::Make(options.model, options.graph, RecognizerOptionsOf(options))),
        settings_(StreamSettingsOf(options)),
        memory_(options, recognizer_) {
    if (!options.profile.empty()) settings_.profile = recognizer_.LoadProfile(options.profile);
  }

  void Run() {
    if (options_.rate != 0 && (options_.microphone || options_.input != "-")) {
      throw UsageError("--rate is of samples on standard input; files say theirs, and a microphone has the model's");
    }
    const int rate_hz = recognizer_.sample_rate_hz();
    const Print print = [this](const Events& events) { PrintEvents(events); };
    if (options_.microphone) {
      Hear(rate_hz, [&](Stream& stream) { HearMicrophone(options_, rate_hz, stream, print); });
    } else if (options_.input == "-") {
      const int input_hz = options_.rate != 0 ? options_.rate : rate_hz;
      Hear(input_hz, [&](Stream& stream) { ReadStandardInput(input_hz, stream, print); });
    } else {
      const data::AudioFiles files(options_.input);
      for (const std::string& path : files.paths()) {
        if (files.paths().size() > 1) recording_ = path;
        feat::AudioReader reader(files.folder() / path);
        if (reader.channels_mixed() > 1) {
          remarks_.push_back(
              About(recording_, fmt::format("the mean of {} channels is heard; antiphon transcribe takes them apart",
                                            reader.channels_mixed())));
        }
        Hear(reader.sample_rate_hz(), [&](Stream& stream) { HearFile(reader, stream, print); });
      }
    }
    for (const std::string& remark : remarks_) log::Warn("{}", remark);
    context_.SetResult(PrintedJson({{"utterances", utterances_}, {"audio_remarks", remarks_}}));
  }

 private:
  void Hear(int rate_hz, const std::function<void(Stream&)>& feed) {
    settings_.memory = memory_.memory();
    Stream stream = recognizer_.NewStream(rate_hz, settings_);
    feed(stream);
    if (!stream.ended()) PrintEvents(stream.End());
    memory_.Keep(stream.memory());
    for (const std::string& remark : stream.AudioRemarks()) remarks_.push_back(About(recording_, remark));
  }

  void PrintEvents(const Events& events) {
    for (const StreamEvent& event : events) {
      auto json = JsonOf(event);
      json.erase("nbest");
      if (!recording_.empty()) json["recording"] = recording_;
      context_.PrintLine(PrintedJson(json));
      context_.out().flush();
      if (event.final && context_.json()) utterances_.push_back(json);
    }
  }

  const ListenOptions& options_;
  CommandContext& context_;
  Recognizer recognizer_;
  StreamSettings settings_;
  Remembered memory_;
  std::string recording_;  // of several
  std::vector<std::string> remarks_;
  nlohmann::ordered_json utterances_ = nlohmann::ordered_json::array();  // with --json alone: a microphone has no end
};

void Listen(const ListenOptions& options, CommandContext& context) {
  // One stream keeps part of a core busy; a second thread would mostly wait, which libgomp does at full speed.
  if (!context.config().Has("threads")) SetComputeThreads(1);
  Listening(options, context).Run();
}

REGISTER_COMMAND(
    "listen", ListenOptions, Listen,
    {.summary = "recognise speech while it is being said",
     .description = "Reads samples from standard input, a file or the microphone and prints a line of JSON for what is "
                    "understood so far, with the times of its words, and one with confidences, too, for each utterance "
                    "that ended.",
     .example = "arecord -q -t raw -f S16_LE -c 1 -r 16000 | antiphon listen --model exp/net/model.safetensors --graph "
                "exp/graph --nnet.precision int8\n"
                "antiphon listen --model exp/net/model.safetensors --graph exp/graph call.wav",
     .positionals = {"input"},
     .required = {"model"},
     .common = {"profile", "speaker", "microphone", "microphone-name", "vad", "rate", "partial", "lm-weight",
                "word-penalty", "beam", "rescore-arpa", "graph-arpa", "written", "hotwords", "word-list", "add-words",
                "lm", "nnet.precision", "nnet.lazy"}});

}  // namespace
}  // namespace antiphon::app
