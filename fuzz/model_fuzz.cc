// Model files: the network's description, dimensions, priors.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "fuzz_file.h"
#include "nn/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string sealed = antiphon::fuzz::WriteSealed("sealed.safetensors", data, size);
  if (sealed.empty()) return 0;
  try {
    antiphon::nn::Model::Load(sealed);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
