// Tensor files: any bytes are read or refused, and a size that lies never takes memory.
#include <cstdint>

#include "base/error.h"
#include "fuzz_file.h"
#include "math/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const antiphon::SafetensorsReader reader(antiphon::fuzz::FuzzFolder::Write("x.safetensors", data, size));
    for (const std::string& name : reader.Names()) {
      const antiphon::TensorView& tensor = reader.Tensor(name);
      try {
        if (tensor.shape.size() == 2) reader.ReadMatrix(name);
        if (tensor.shape.size() == 1) reader.ReadFloats(name);
      } catch (const antiphon::InputError&) {
      }
      try {
        reader.ReadInts(name);
      } catch (const antiphon::InputError&) {
      }
    }
  } catch (const antiphon::InputError&) {
  } catch (const antiphon::IoError&) {
  }
  return 0;
}
