// The sound of a microphone, through the programs that sound systems bring: parec (PulseAudio and PipeWire) and arecord
// (ALSA). They are started without a shell and with fixed arguments, so that nothing is linked that a machine without
// sound lacks.
//
// Units: 16-bit samples of one channel at the rate that was asked for; the sound system converts. Threads: one per
// object. Errors: IoError saying what was tried, what each program said and what to do: no such program, no device, no
// sound for some seconds, a device that went away.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/running_program.h"
#include "base/scratch_folder.h"

namespace antiphon::data {

struct MicrophoneOptions {
  std::string name = "default";
  std::string system = "auto";

  template <class V>
  void Visit(V& v) {
    v("microphone-name", name, "of the microphone, as `pactl list short sources` or `arecord -L` lists them");
    v("microphone-system", system, OneOf{{"auto", "pulse", "alsa"}},
      "PulseAudio or PipeWire (parec), or ALSA (arecord); auto: the first that gives sound");
  }
};

class Microphone {
 public:
  /// Returns when there is sound.
  Microphone(const MicrophoneOptions& options, int rate_hz);

  /// The next samples, a tenth of a second at most; none at the end, and after a request to stop (base/cancel.h).
  std::vector<int16_t> Read();
  /// Throws if the end was no good one: the device fell silent, or its program failed.
  void RequireGoodEnd() const;

 private:
  // Whether the program gives sound; what is wrong with it goes to `problem`.
  bool Open(const std::vector<std::string>& words, const std::string& package, std::string& problem);
  bool ReadMore(double timeout_s);
  std::string Message();

  ScratchFolder folder_;  // of what the program says
  int rate_hz_;
  std::unique_ptr<RunningProgram> program_;
  std::string program_name_;
  std::vector<std::byte> bytes_;  // not handed out yet
  std::string problem_;
  bool ended_well_ = false;  // the program, of itself
};

}  // namespace antiphon::data
