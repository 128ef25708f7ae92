#include "data/microphone.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/archive.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"

namespace antiphon::data {
namespace {

constexpr double kPatienceS = 5.0;
constexpr double kBetweenAsksS = 0.2;
constexpr char kDefaultName[] = "default";

struct SoundProgram {
  std::string package;
  std::vector<std::string> words;
};

std::vector<SoundProgram> ProgramsFor(const MicrophoneOptions& options, int rate_hz) {
  std::vector<std::string> pulse = {"parec",
                                    "--raw",
                                    "--format=s16le",
                                    "--channels=1",
                                    fmt::format("--rate={}", rate_hz),
                                    "--latency-msec=50",
                                    "--client-name=antiphon"};
  if (options.name != kDefaultName) pulse.push_back("--device=" + options.name);
  const std::vector<std::string> alsa = {"arecord",
                                         "-q",
                                         "--file-type=raw",
                                         "--format=S16_LE",
                                         "--channels=1",
                                         fmt::format("--rate={}", rate_hz),
                                         "--device=" + options.name};
  std::vector<SoundProgram> programs;
  if (options.system != "alsa") programs.push_back({"pulseaudio-utils", pulse});
  if (options.system != "pulse") programs.push_back({"alsa-utils", alsa});
  return programs;
}

}  // namespace

Microphone::Microphone(const MicrophoneOptions& options, int rate_hz) : rate_hz_(rate_hz) {
  std::string problems;
  for (const SoundProgram& program : ProgramsFor(options, rate_hz)) {
    std::string problem;
    if (Open(program.words, program.package, problem)) return;
    ThrowIfCancelled("opening the microphone");
    problems += (problems.empty() ? "" : "; ") + problem;
  }
  Throw<IoError>(
      "no microphone can be heard: {}. `pactl list short sources` and `arecord -L` list what there is, for "
      "--microphone-name; a file or standard input can be listened to without one",
      problems);
}

bool Microphone::Open(const std::vector<std::string>& words, const std::string& package, std::string& problem) {
  program_name_ = words[0];
  program_ = RunningProgram::Start(words, folder_.path() / "messages.txt");
  if (program_ == nullptr) {
    problem = fmt::format("{} is not installed (Debian's {})", words[0], package);
    return false;
  }
  if (ReadMore(kPatienceS)) return true;
  problem = std::exchange(problem_, {});
  program_.reset();
  return false;
}

bool Microphone::ReadMore(double timeout_s) {
  const size_t kept = bytes_.size();
  const size_t most = static_cast<size_t>(rate_hz_ / 10) * sizeof(int16_t);
  double waited_s = 0;
  for (;;) {
    if (CancelRequested()) return false;
    bytes_.resize(kept + most);
    const auto count = program_->Read(std::span(bytes_).subspan(kept), kBetweenAsksS);
    bytes_.resize(kept + count.value_or(0));
    if (count && *count > 0) return true;
    waited_s += kBetweenAsksS;
    if (count) {
      problem_ = Message();
      return false;
    }
    if (waited_s >= timeout_s) {
      problem_ = fmt::format("{} gives no sound for {:.0f} s", program_name_, timeout_s);
      return false;
    }
  }
}

std::string Microphone::Message() {
  const auto status = program_->ExitStatus(kPatienceS);
  ended_well_ = status == 0;
  const std::string text = IsThere(folder_.path() / "messages.txt") ? ReadFile(folder_.path() / "messages.txt") : "";
  const std::string line = text.substr(0, text.find('\n'));
  return fmt::format("{} ended{}{}", program_name_, status ? fmt::format(" with status {}", *status) : "",
                     line.empty() ? "" : fmt::format(" ('{}')", line));
}

std::vector<int16_t> Microphone::Read() {
  while (bytes_.size() < sizeof(int16_t)) {
    if (!problem_.empty() || !ReadMore(kPatienceS)) return {};
  }
  std::vector<int16_t> samples(bytes_.size() / sizeof(int16_t));
  const size_t taken = samples.size() * sizeof(int16_t);
  std::memcpy(samples.data(), bytes_.data(), taken);
  bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(taken));
  return samples;
}

void Microphone::RequireGoodEnd() const {
  if (problem_.empty() || ended_well_) return;
  Throw<IoError>("the microphone went away: {}", problem_);
}

}  // namespace antiphon::data
