// antiphon samples: what a recogniser hears of an audio file, as raw samples.

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/io_error.h"
#include "command.h"
#include "feat/audio.h"

namespace antiphon::app {
namespace {

struct SamplesOptions {
  std::string input;
  std::string format = "s16";
  int rate = 0;
  int channel = -1;
  double start = 0;
  double end = 0;
  bool header = false;
  int64_t max_memory = 0;
  double max_seconds = 0;

  template <class V>
  void Visit(V& v) {
    v("input", input, "an audio file");
    v("format", format, OneOf{{"s16", "f32"}},
      "of the samples, little endian: 16-bit whole numbers, or 32-bit floating ones in -1 … 1");
    v("rate", rate, Range{0, 384000}, "Hz to convert to; 0: the file's");
    v("channel", channel, Range{-1, 1023}, "from 0; -1: the only one, or the mean of all");
    v("start", start, Range{0, 1e9}, "seconds into the recording");
    v("end", end, Range{0, 1e9}, "seconds into the recording, at most its end; 0: its end");
    v("header", header, "print a line of JSON first: {\"rate\": …, \"channels\": …}");
    v("max-memory", max_memory, Range{0, 1e15},
      "bytes that the process may map at most, for files of strangers; 0: any");
    v("max-seconds", max_seconds, Range{0, 1e6}, "of computing that it may take at most; 0: any");
  }
};

void Limit(decltype(RLIMIT_AS) what, rlim_t most, const char* name) {
  const rlimit limit{most, most};
  if (::setrlimit(what, &limit) != 0) ThrowIo("limit", name, errno);
}

// Before a byte of the file is read; what the process starts has the same limits.
void LimitThisProcess(const SamplesOptions& options) {
  if (options.max_memory > 0) {
    Limit(RLIMIT_AS, static_cast<rlim_t>(options.max_memory), "the memory");
    Limit(RLIMIT_FSIZE, static_cast<rlim_t>(options.max_memory), "the length of files");
  }
  if (options.max_seconds > 0) {
    Limit(RLIMIT_CPU, static_cast<rlim_t>(std::ceil(options.max_seconds)), "the time");
  }
  if (options.max_memory > 0 || options.max_seconds > 0) Limit(RLIMIT_CORE, 0, "core dumps");
}

void WriteSamples(std::span<const float> samples, bool as_floats) {
  constexpr float kSampleScale = 32768;
  constexpr float kLargestSample = 32767;
  std::vector<float> floats;
  std::vector<int16_t> whole;
  for (const float sample : samples) {
    if (as_floats) {
      floats.push_back(sample / kSampleScale);
    } else {
      whole.push_back(static_cast<int16_t>(std::lround(std::clamp(sample, -kSampleScale, kLargestSample))));
    }
  }
  const auto* bytes =
      as_floats ? reinterpret_cast<const char*>(floats.data()) : reinterpret_cast<const char*>(whole.data());
  std::cout.write(bytes, static_cast<std::streamsize>(samples.size() * (as_floats ? sizeof(float) : sizeof(int16_t))));
  if (!std::cout) throw IoError("cannot write to standard output");
}

void RequirePart(const SamplesOptions& options) {
  if (options.end > 0 && options.end <= options.start) {
    Throw<UsageError>("--end {} must be later than --start {}", options.end, options.start);
  }
  if (options.start == 0) return;
  const double duration_s = feat::ProbeAudio(options.input).duration_s();
  if (options.start >= duration_s) {
    Throw<InputError>("--start {} is not within '{}', which lasts {:.3f} s", options.start, options.input, duration_s);
  }
}

void Samples(const SamplesOptions& options, CommandContext& context) {
  if (context.json()) throw UsageError("samples are bytes, not JSON: leave --json out; --header tells the rate");
  LimitThisProcess(options);
  RequirePart(options);
  feat::AudioReader reader(
      options.input, {.channel = options.channel, .start_s = options.start, .end_s = options.end, .end_slack_s = 1e9});
  const int rate_hz = options.rate > 0 ? options.rate : reader.sample_rate_hz();
  if (options.header) {
    std::cout << nlohmann::ordered_json{{"rate", rate_hz}, {"channels", reader.channels_mixed()}}.dump() << "\n";
  }
  feat::Resampler resampler(reader.sample_rate_hz(), rate_hz);
  std::vector<float> converted;
  for (std::vector<float> piece; reader.Read(piece);) {
    ThrowIfCancelled("reading audio");
    converted.clear();
    resampler.Accept(piece, converted);
    WriteSamples(converted, options.format == "f32");
  }
  converted.clear();
  resampler.Finish(converted);
  WriteSamples(converted, options.format == "f32");
}

REGISTER_COMMAND("samples", SamplesOptions, Samples,
                 {.summary = "an audio file as raw samples on standard output",
                  .description = "Reads what decode and listen read (WAV, FLAC, Ogg, MP3 …, and by ffmpeg what else "
                                 "that knows), and writes one channel of it, at another rate if you like.",
                  .example = "antiphon samples call.flac --rate 16000 | antiphon listen --model mine.antiphon\n"
                             "antiphon samples call.flac --header --format f32 > call.f32",
                  .positionals = {"input"},
                  .required = {"input"}});

}  // namespace
}  // namespace antiphon::app
