// ARPA language models: any text is read or refused; what was read survives its own printing.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "decode/lm/ngram.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::decode::NgramModel;
  try {
    const NgramModel model = NgramModel::ParseArpa({reinterpret_cast<const char*>(data), size}, "lm.arpa");
    int32_t state = model.StartState();
    for (int32_t word = 0; word < static_cast<int32_t>(model.words().size()); ++word) {
      state = model.Step(state, word).next_state;
    }
    NgramModel::ParseArpa(model.ToArpa(), "printed.arpa");
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
