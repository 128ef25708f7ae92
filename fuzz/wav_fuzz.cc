// Audio files: any bytes are read or refused; what is read is finite and has a rate.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "feat/audio.h"
#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto wave = antiphon::feat::ReadAudio(antiphon::fuzz::FuzzFolder::Write("x.wav", data, size));
    if (wave.sample_rate_hz <= 0) std::abort();
    for (const float sample : wave.samples) {
      if (!std::isfinite(sample)) std::abort();
    }
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
