// features_bench: how many times real time one core turns a WAV file into features, reading included.
//
//   features_bench [--json] [--seconds S] [--rate HZ] [FILE.wav …]
//
// Without files it makes one of S seconds (15) of noise and tones. Prints the best of several runs of each kind, with
// dither and without, and the CPU and instruction set.
#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "feat/audio.h"
#include "feat/front_end.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerRun = 0.5;
constexpr int kRuns = 3;

struct Case {
  std::string name;
  feat::FrontEndOptions options;
};

feat::Waveform MakeWave(double seconds, int rate) {
  Rng rng(1);
  feat::Waveform wave{{}, rate};
  const auto n = static_cast<int64_t>(seconds * rate);
  for (int64_t i = 0; i < n; ++i) {
    const double t = static_cast<double>(i) / rate;
    const double loudness = 0.5 + 0.5 * std::sin(2 * std::numbers::pi * 3 * t);
    double x = 100 * rng.Normal();
    for (int k = 1; k <= 10; ++k)
      x += loudness * 1000 / k * std::sin(2 * std::numbers::pi * k * (120 + 30 * std::sin(t)) * t);
    wave.samples.push_back(static_cast<float>(std::round(x)));
  }
  return wave;
}

std::vector<Case> Cases(int rate) {
  std::vector<Case> cases;
  for (const double dither : {0.0, 1.0}) {
    const std::string end = dither > 0 ? "+dither" : "";
    for (const std::string kind : {"fbank", "mfcc", "plp"}) {
      feat::FrontEndOptions options = feat::FrontEndOptions::Standard(kind, rate);
      options.dither = dither;
      cases.push_back({kind + end, options});
    }
    feat::FrontEndOptions hires;
    hires.sample_rate_hz = rate;
    hires.dither = dither;
    cases.push_back({"mfcc40" + end, hires});
  }
  feat::FrontEndOptions pitch = feat::FrontEndOptions::Standard("mfcc", rate);
  pitch.pitch_dim = 3;
  cases.push_back({"mfcc+pitch3", pitch});
  feat::FrontEndOptions all = feat::FrontEndOptions::Standard("plp", rate);
  all.pitch_dim = 1;
  all.delta_order = 2;
  all.dither = 1.0;
  cases.push_back({"plp+pitch1+deltas+dither", all});
  return cases;
}

// Seconds of speech per second of work, the best of several runs.
double Measure(const feat::FrontEnd& front_end, const std::vector<fs::path>& files) {
  double best = 0.0, check = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    double audio_s = 0.0;
    const auto start = Clock::now();
    double elapsed = 0.0;
    for (size_t i = 0; elapsed < kSecondsPerRun; i = (i + 1) % files.size()) {
      const feat::Waveform wave = feat::Resample(feat::ReadAudio(files[i]), front_end.options().sample_rate_hz);
      const Matrix frames = front_end.Compute(wave.samples);
      check += frames.empty() ? 0.0 : frames(0, 0);
      audio_s += wave.duration_s();
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    best = std::max(best, audio_s / elapsed);
  }
  if (!std::isfinite(check)) Throw<InternalError>("features are not finite");
  return best;
}

std::string CpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

int Run(int argc, char** argv) {
  bool json = false;
  double seconds = 15.0;
  int rate = 16000;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--seconds" && i + 1 < argc) {
      seconds = std::stod(argv[++i]);
    } else if (arg == "--rate" && i + 1 < argc) {
      rate = std::stoi(argv[++i]);
    } else if (arg.starts_with("--")) {
      Throw<UsageError>("usage: features_bench [--json] [--seconds S] [--rate HZ] [FILE.wav …]");
    } else {
      files.emplace_back(arg);
    }
  }
  const fs::path made = fs::temp_directory_path() /
                        fmt::format("antiphon_features_bench_{}.wav", Clock::now().time_since_epoch().count());
  if (files.empty()) {
    feat::WriteWav(made, MakeWave(seconds, rate));
    files.push_back(made);
  } else {
    rate = feat::ProbeAudio(files[0]).sample_rate_hz;
  }
  const std::string target = hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets());
  nlohmann::ordered_json result{{"cpu", CpuModel()}, {"instruction_set", target}, {"sample_rate_hz", rate}};
  if (!json)
    fmt::print("{}, {}, {} Hz; times real time on one core, reading the WAV included\n", CpuModel(), target, rate);
  for (const Case& c : Cases(rate)) {
    const double speed = Measure(feat::FrontEnd(c.options), files);
    result["times_real_time"][c.name] = std::round(speed);
    if (!json) fmt::print("{:<26}{:>8.0f}\n", c.name, speed);
  }
  fs::remove(made);
  if (json) fmt::print("{}\n", result.dump());
  return 0;
}

}  // namespace
}  // namespace antiphon

int main(int argc, char** argv) {
  try {
    return antiphon::Run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "features_bench: {}\n", e.what());
    return 1;
  }
}
