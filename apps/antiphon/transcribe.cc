// antiphon transcribe: what is said in recordings, as text and subtitles.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "antiphon/recognizer.h"
#include "api/recognizer_impl.h"
#include "api/recognizer_options.h"
#include "base/cancel.h"
#include "base/core_shares.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finally.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "call_channels.h"
#include "command.h"
#include "data/audio_files.h"
#include "data/channels.h"
#include "decode/search/recognize.h"
#include "decode/search/word_bias.h"
#include "feat/audio.h"
#include "feat/foreign_sound.h"
#include "feat/zero_spans.h"
#include "pipeline/bundle.h"
#include "pipeline/graph_changes.h"
#include "pipeline/transcript.h"
#include "pipeline/voice_activity.h"
#include "report/progress.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct TranscribeOptions {
  std::string model, graph, weights, out, written;
  std::vector<std::string> files;
  std::string format = "text";
  std::vector<std::string> write;
  bool overwrite = false;
  bool srt = false;
  bool vtt = false;
  std::string channels = "auto";
  std::string precision = "auto";
  double beam = 13.0;
  std::vector<std::string> hotwords;
  double hotword_bonus = 4.0;
  pipeline::GraphChanges changes;
  vad::VadOptions vad;

  template <class V>
  void Visit(V& v) {
    v("model", model, "what antiphon bundle made, or a model file");
    v("graph", graph, "folder that antiphon graph made for the model; empty: the bundle's");
    v("weights", weights, "weights.toml of a run with --tune; empty: the bundle's");
    v("files", files,
      "recordings: what libsndfile reads, and with ffmpeg installed what that reads; of a folder, all in it and below");
    v("format", format, OneOf{{"text", "srt", "vtt", "json", "ctm", "TextGrid"}},
      "of what is printed, where no files are asked for; of several recordings text, ctm or json, a list");
    v("srt", srt, "write subtitles, NAME.srt");
    v("vtt", vtt, "write subtitles for web pages, NAME.vtt");
    v("write", write, "formats to write files in: text (NAME.txt), srt, vtt, json, ctm, TextGrid");
    v("overwrite", overwrite,
      "replace NAME.txt and NAME.TextGrid that are beside the recordings already: they may be transcripts by hand");
    v("out", out, "folder for these files, with --srt, --vtt or --write; empty: beside each recording");
    v("channels", channels, OneOf{{"auto", "mean", "each"}},
      "of recordings with two or more: their mean, or each for itself; auto: each of two that differ, as of a call");
    v("precision", precision, OneOf{{"auto", "fp32", "bf16", "int8"}}, "of the network's products");
    v("beam", beam, Range{1.0, 1000.0}, "nats that a hypothesis may be worse than the best");
    v("hotwords", hotwords, decode::kHotwordsHelp);
    v("hotword-bonus", hotword_bonus, Range{-100.0, 100.0}, decode::kHotwordBonusHelp);
    v("written", written,
      "as people write it in place of the words, with numbers, full stops and capitals: english, what antiphon written "
      "made, or bundle, the bundle's own; empty: words as they are recognised");
    changes.Visit(v);
    vad.Visit(v);
  }
};

// Files to write, with text first; empty: the words are printed.
std::vector<const pipeline::TranscriptFormat*> FormatsToWrite(const TranscribeOptions& options) {
  std::vector<const pipeline::TranscriptFormat*> formats;
  const auto add = [&](std::string_view name) {
    const auto* format = &pipeline::FindTranscriptFormat(name);
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) formats.push_back(format);
  };
  for (const std::string& name : options.write) add(name);
  if (options.srt) add("srt");
  if (options.vtt) add("vtt");
  return formats;
}

// What people write beside their recordings, and what prepare and align read there.
bool MayBeByHand(const pipeline::TranscriptFormat& format) {
  return format.ending == "text" || format.ending == "TextGrid";
}

// Of the files that a recording's transcripts go to.
fs::path FolderFor(const std::string& file, const TranscribeOptions& options) {
  return options.out.empty() ? fs::path(file).parent_path() : fs::path(options.out);
}

// Of a recording's transcript, or of one channel's.
std::string NameOf(const std::string& recording, int channel) {
  return recording + (channel < 0 ? "" : "-" + data::ChannelName(channel));
}

// Files are written into folders and keep their names; in a list all stand beside each other.
std::vector<std::string> NamesOf(const std::vector<std::string>& files, bool in_list) {
  if (in_list) return data::NamesOfRecordings(files);
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).stem().string());
  return names;
}

// As far as headers can tell; the others count when they are read.
double SecondsOf(const std::vector<std::string>& files) {
  double seconds = 0;
  for (const std::string& file : files) {
    try {
      if (!feat::IsForeignSound(file)) seconds += feat::ProbeAudio(file).duration_s();
    } catch (const std::runtime_error&) {
      continue;  // said when it is its turn
    }
  }
  return seconds;
}

// Neither words nor sound that could be any.
bool HasNoSpeech(const pipeline::Transcript& transcript) {
  return transcript.words.empty() &&
         (transcript.remark == feat::kAllZeroRemark || transcript.remark == decode::kNoFrames ||
          transcript.remark == pipeline::kNoSpeechRemark || transcript.remark == pipeline::kHardlySpeechRemark);
}

// What became of one recording.
struct Outcome {
  std::vector<pipeline::Transcript> transcripts;  // of each channel
  std::vector<std::string> written;
  std::string error;
};

class Transcriber {
 public:
  Transcriber(const TranscribeOptions& options, CommandContext& context)
      : options_(options),
        context_(context),
        formats_(FormatsToWrite(options)),
        names_(NamesOf(options.files, formats_.empty())),
        print_(formats_.empty() && !context.json() ? &pipeline::FindTranscriptFormat(options.format) : nullptr),
        cores_(context.threads()),
        recognizer_(MakeRecognizer(options)),
        total_s_(SecondsOf(options.files)),
        progress_("transcribing", std::max<int64_t>(1, static_cast<int64_t>(total_s_)), "s of speech") {}

  // True if all went well. Results come in the order of the files, each as soon as it is there.
  bool Run() {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    bool all = true;
    if (print_ != nullptr && options_.files.size() > 1) list_.emplace(*print_, context_.out());
    {
      const Finally closed([this] {
        if (list_) list_->Close();
      });
      ParallelInOrder<Outcome>(
          options_.files.size(), context_.threads(), [&](size_t i) { return Transcribe(options_.files[i], names_[i]); },
          [&](size_t i, Outcome&& outcome) {
            Tell(options_.files[i], outcome, json);
            all = all && outcome.error.empty();
          });
    }
    progress_.Finish();
    TellOfSound();
    context_.SetResult(nlohmann::ordered_json({{"recordings", std::move(json)}}).dump(2));
    return all;
  }

 private:
  static Recognizer MakeRecognizer(const TranscribeOptions& options) {
    RecognizerSettings settings;
    settings.beam = options.beam;
    settings.weights = options.weights;
    settings.precision = options.precision;
    settings.written = options.written;
    settings.threads = 0;  // as many as the calling thread computes with
    RecognizerOptions all = OptionsOf(settings);
    all.recognize.bias.hotwords = fmt::format("{}", fmt::join(options.hotwords, ","));
    all.recognize.bias.hotword_bonus = options.hotword_bonus;
    all.changes = options.changes;
    all.vad = options.vad;
    return RecognizerAccess::Make(options.model, options.graph, all);
  }

  Outcome Transcribe(const std::string& file, const std::string& name) {
    CoreShares::Part cores(cores_);
    Outcome outcome;
    try {
      const feat::AudioInfo info = feat::ProbeAudio(file);
      if (feat::IsForeignSound(file)) Progress(0, info.duration_s());
      const std::vector<int> channels = ChannelsOf(file, info.num_channels, options_.channels);
      RequireOneToPrint(file, channels.size());
      for (const int channel : channels) RefuseToReplace(file, NameOf(name, channel));
      for (const int channel : channels) {
        outcome.transcripts.push_back(
            Recognize(file, NameOf(name, channel), info, channel, 1.0 / static_cast<double>(channels.size()), cores));
      }
      if (std::ranges::all_of(outcome.transcripts, HasNoSpeech)) {
        const pipeline::Transcript& first = outcome.transcripts.front();
        std::vector<std::string> why = {first.remark};
        why.insert(why.end(), first.audio_remarks.begin(), first.audio_remarks.end());
        Throw<InputError>("'{}': {}", file, fmt::join(why, "; "));
      }
      // All channels or none.
      for (const pipeline::Transcript& transcript : outcome.transcripts) Write(file, transcript, outcome);
    } catch (const Cancelled&) {
      throw;
    } catch (const std::runtime_error& e) {
      outcome.transcripts.clear();
      outcome.error = e.what();
    }
    return outcome;
  }

  void RequireOneToPrint(const std::string& file, size_t transcripts) const {
    if (print_ == nullptr || transcripts == 1 || print_->several != pipeline::Several::kNoDocument) return;
    Throw<InputError>(
        "'{}' gives {} transcripts, of a channel each, and --format {} prints a document of one: write files with "
        "--write {}, or take --channels mean",
        file, transcripts, options_.format, options_.format);
  }

  // `share`: of the recording's seconds that are done with this channel.
  pipeline::Transcript Recognize(const std::string& file, const std::string& name, const feat::AudioInfo& info,
                                 int channel, double share, CoreShares::Part& cores) {
    ThrowIfCancelled("transcribing");
    RecognizeSettings settings;
    settings.channel = channel;
    double before = 0;
    settings.progress = [&](double done_s) {
      cores.Update();
      Progress(share * (done_s - std::exchange(before, done_s)));
    };
    cores.Update();
    const Recognition said = recognizer_.RecognizeFile(file, settings);
    pipeline::Transcript transcript{name, info.duration_s(), said.remark, {}, said.audio_remarks};
    for (const RecognizedWord& word : options_.written.empty() ? said.words : said.written_words) {
      transcript.words.push_back({word.word, word.start_s, word.end_s, word.confidence});
    }
    return transcript;
  }

  fs::path PathOf(const std::string& file, const std::string& transcript,
                  const pipeline::TranscriptFormat& format) const {
    const std::string ending(format.ending == "text" ? "txt" : format.ending);
    return FolderFor(file, options_) / (transcript + "." + ending);
  }

  void RefuseToReplace(const std::string& file, const std::string& transcript) const {
    if (options_.overwrite || !options_.out.empty()) return;
    for (const pipeline::TranscriptFormat* format : formats_) {
      const fs::path path = PathOf(file, transcript, *format);
      if (!MayBeByHand(*format) || !fs::exists(path)) continue;
      Throw<InputError>(
          "'{}' is there already, perhaps written by hand: --out FOLDER writes elsewhere, --overwrite replaces it",
          path.string());
    }
  }

  void Write(const std::string& file, const pipeline::Transcript& transcript, Outcome& outcome) const {
    for (const pipeline::TranscriptFormat* format : formats_) {
      const fs::path path = PathOf(file, transcript.name, *format);
      WriteFileAtomically(path, format->write(transcript));
      outcome.written.push_back(path.string());
    }
  }

  void Tell(const std::string& file, const Outcome& outcome, nlohmann::ordered_json& json) {
    nlohmann::ordered_json entry = {{"file", file}};
    if (!outcome.error.empty()) {
      log::Warn("{}", outcome.error);
      entry["error"] = outcome.error;
    }
    if (print_ != nullptr && !list_ && outcome.transcripts.size() > 1) list_.emplace(*print_, context_.out());
    for (const pipeline::Transcript& transcript : outcome.transcripts) {
      entry["channels"].push_back(nlohmann::ordered_json::parse(pipeline::ToJson(transcript)));
      if (!transcript.remark.empty()) log::Warn("{}: {}", transcript.name, transcript.remark);
      for (const std::string& remark : transcript.audio_remarks) about_sound_[remark].push_back(transcript.name);
      if (list_) {
        list_->Add(transcript);
      } else if (print_ != nullptr) {
        context_.out() << print_->write(transcript) << std::flush;
      }
    }
    for (const std::string& path : outcome.written) context_.PrintLine(path);
    if (!outcome.written.empty()) entry["files"] = outcome.written;
    json.push_back(std::move(entry));
  }

  // Each remark once: a folder of telephone speech has the same of all its recordings.
  void TellOfSound() const {
    for (const auto& [remark, names] : about_sound_) {
      if (names.size() == 1) {
        log::Warn("{}: {}", names.front(), remark);
      } else {
        log::Warn("{} and {} other{}: {}", names.front(), names.size() - 1, names.size() > 2 ? "s" : "", remark);
      }
    }
  }

  // More seconds are done, of whatever recording; or more are there to do.
  void Progress(double seconds, double more_to_do_s = 0) {
    const std::lock_guard lock(mutex_);
    total_s_ += more_to_do_s;
    done_s_ += seconds;
    progress_.SetTotal(std::max<int64_t>(1, static_cast<int64_t>(total_s_)));
    progress_.Update(static_cast<int64_t>(done_s_));
  }

  const TranscribeOptions& options_;
  CommandContext& context_;
  std::vector<const pipeline::TranscriptFormat*> formats_;
  std::vector<std::string> names_;
  const pipeline::TranscriptFormat* print_;  // null: nothing is printed
  std::optional<pipeline::TranscriptList> list_;
  std::map<std::string, std::vector<std::string>> about_sound_;  // transcripts by what is wrong with the sound
  CoreShares cores_;
  Recognizer recognizer_;
  std::mutex mutex_;
  double total_s_;
  double done_s_ = 0;
  report::Progress progress_;
};

// Recordings by what they write, without an ending.
class NamesInUse {
 public:
  explicit NamesInUse(const TranscribeOptions& options) : options_(options) {}

  void Take(const std::string& file, int channel) {
    const auto [other, is_new] = files_.emplace(PathOf(file, channel), file);
    if (!is_new) {
      Throw<UsageError>(
          "'{}' and '{}' would write the same files: rename one, or write theirs into different folders (--out)",
          other->second, file);
    }
  }

  // Whether a channel of `file` would be called like another recording.
  bool HasChannelOf(const std::string& file) const {
    const std::string beginning = PathOf(file, -1).string() + "-";
    const auto next = files_.lower_bound(beginning);
    return next != files_.end() && next->first.starts_with(beginning);
  }

 private:
  fs::path PathOf(const std::string& file, int channel) const {
    const fs::path folder = FolderFor(file, options_);
    return fs::weakly_canonical(folder.empty() ? "." : folder) / NameOf(fs::path(file).stem().string(), channel);
  }

  const TranscribeOptions& options_;
  std::map<std::string, std::string> files_;
};

std::vector<int> ChannelsIfReadable(const std::string& file, const std::string& wish) {
  try {
    return ChannelsOf(file, feat::ProbeAudioFormat(file).num_channels, wish);
  } catch (const Cancelled&) {
    throw;
  } catch (const std::runtime_error&) {
    return {-1};  // said when it is its turn
  }
}

// Two recordings must not write one file: call.wav and call.mp3, or a channel of call.wav and call-A.wav.
void RequireDifferentNames(const TranscribeOptions& options) {
  if (FormatsToWrite(options).empty()) return;
  NamesInUse names(options), exact(options);
  for (const std::string& file : options.files) names.Take(file, -1);
  for (const std::string& file : options.files) {
    const std::vector<int> channels =
        names.HasChannelOf(file) ? ChannelsIfReadable(file, options.channels) : std::vector<int>{-1};
    for (const int channel : channels) exact.Take(file, channel);
  }
}

void RequireFilesForFolder(const TranscribeOptions& options) {
  if (options.out.empty() || !FormatsToWrite(options).empty()) return;
  Throw<UsageError>(
      "--out '{}' is a folder for files, and none are asked for: add --srt, --vtt or --write {}; --format is of what "
      "is printed",
      options.out, options.format);
}

// Where files are written nothing is printed, and the format would be lost.
void RequirePrintedFormat(const TranscribeOptions& options, const CommandContext& context) {
  if (!context.config().Has("format") || FormatsToWrite(options).empty()) return;
  Throw<UsageError>(
      "--format {} is of what is printed, and with --srt, --vtt or --write nothing is: for a file of it, add --write "
      "{}",
      options.format, options.format);
}

// Documents of one recording each, one after the other, are none.
void RequireOneDocument(const TranscribeOptions& options) {
  if (options.files.size() == 1 || !FormatsToWrite(options).empty()) return;
  if (pipeline::FindTranscriptFormat(options.format).several != pipeline::Several::kNoDocument) return;
  Throw<UsageError>(
      "--format {} prints a document of one recording, and here are {}: write files with --write {}, beside the "
      "recordings or with --out into a folder",
      options.format, options.files.size(), options.format);
}

void Transcribe(const TranscribeOptions& asked, CommandContext& context) {
  TranscribeOptions options = asked;
  options.files = data::RecordingsIn(asked.files);
  RequireFilesForFolder(options);
  RequirePrintedFormat(options, context);
  if (!context.json()) RequireOneDocument(options);
  RequireDifferentNames(options);
  if (!Transcriber(options, context).Run()) {
    throw InputError(options.files.size() == 1
                         ? "the recording could not be transcribed; the reason stands above"
                         : "some recordings could not be transcribed; the reasons stand above, the others are done");
  }
}

REGISTER_COMMAND(
    "transcribe", TranscribeOptions, Transcribe,
    {.summary = "recordings as text and subtitles",
     .description =
         "Recognises audio files of any length and rate, the channels of a call apart, and prints the words or "
         "writes text, subtitles, JSON, CTM or TextGrid beside them. Files that cannot be read, and files "
         "without speech, are reported; the others are transcribed all the same.",
     .example = "antiphon transcribe --model mine.antiphon talk.mp3\n"
                "antiphon transcribe --model mine.antiphon --srt --out subtitles/ lectures/",
     .positionals = {"files"},
     .required = {"model", "files"},
     .common = {"format", "srt", "vtt", "write", "out", "channels", "written", "hotwords", "add-words", "lm", "vad"}});

}  // namespace
}  // namespace antiphon::app
