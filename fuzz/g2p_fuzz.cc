// Grapheme-to-phoneme models: the input is a tensor file; it gets the checksum that a model must carry, so that random
// changes reach what lies behind it: letters, units, the n-grams. What was read pronounces a word, or says why not.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "fuzz_file.h"
#include "g2p/model.h"
#include "math/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::fuzz::FuzzFolder;
  const std::string sealed = (FuzzFolder::Get() / "sealed.g2p").string();
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
    const antiphon::g2p::Model model = antiphon::g2p::Model::Load(sealed);
    std::string word;
    for (const std::string& letter : model.letters()) {
      if (word.size() < 8) word += letter;
    }
    for (const antiphon::g2p::Guess& guess : model.Pronounce(word, {.nbest = 3})) {
      if (guess.phones.empty() || !(guess.probability >= 0 && guess.probability <= 1)) std::abort();
    }
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
