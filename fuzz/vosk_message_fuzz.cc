// Text messages of Vosk's clients and queries: any bytes are read or refused, with values in their ranges.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "serve/access.h"
#include "serve/vosk_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  antiphon::serve::VoskConfig config;
  try {
    antiphon::serve::ReadVoskMessage(text, config);
  } catch (const antiphon::UsageError&) {
  }
  if (config.sample_rate_hz < 1000 || config.sample_rate_hz > 384000) std::abort();
  if (config.max_alternatives < 0 || config.max_alternatives > 100) std::abort();
  antiphon::serve::QueryValue(text, "token");
  return 0;
}
