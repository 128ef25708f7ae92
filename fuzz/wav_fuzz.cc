// Audio: any bytes are read or refused; what is read is finite and has a rate. As bytes, not as a file, of which ffmpeg
// would be asked what libsndfile refuses.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "feat/audio.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto wave = antiphon::feat::ReadAudio(std::as_bytes(std::span(data, size)), "x.wav");
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
