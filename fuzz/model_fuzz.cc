// Model files: the input is a tensor file; it gets the checksum that a model must carry, so that random changes reach
// what lies behind it: the network's description, dimensions, priors.
#include <cstdint>

#include "base/error.h"
#include "fuzz_file.h"
#include "math/safetensors.h"
#include "nn/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::fuzz::FuzzFolder;
  const std::string sealed = (FuzzFolder::Get() / "sealed.safetensors").string();
  try {
    const antiphon::SafetensorsReader reader(FuzzFolder::Write("plain.safetensors", data, size));
    antiphon::SafetensorsWriter writer;
    for (const std::string& name : reader.Names()) {
      const antiphon::TensorView& tensor = reader.Tensor(name);
      writer.Add(name, tensor.type, tensor.shape, tensor.data);
    }
    for (const auto& [key, value] : reader.metadata()) writer.SetMetadata(key, value);
    writer.Write(sealed);
  } catch (const antiphon::Error&) {
    return 0;
  }
  try {
    antiphon::nn::Model::Load(sealed);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
