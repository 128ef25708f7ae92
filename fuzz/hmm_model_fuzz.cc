// The JSON description of phones, topology, tree and transitions that model files carry.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "hmm/hmm_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto model = antiphon::hmm::HmmModel::FromJson(std::string_view(reinterpret_cast<const char*>(data), size));
    antiphon::hmm::HmmModel::FromJson(model.ToJson());
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
