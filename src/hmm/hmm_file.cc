#include "hmm/hmm_file.h"

#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "math/safetensors.h"

namespace antiphon::hmm {

std::optional<HmmModel> FindHmm(const std::filesystem::path& path) {
  return WithContext(
      [&]() -> std::optional<HmmModel> {
        if (path.extension() != ".safetensors") return HmmModel::FromJson(ReadFile(path));
        const std::string json = SafetensorsReader(path).MetadataOr("hmm", "");
        return json.empty() ? std::nullopt : std::optional(HmmModel::FromJson(json));
      },
      [&] { return fmt::format("reading the HMM of '{}'", path.string()); });
}

HmmModel LoadHmm(const std::filesystem::path& path) {
  if (auto hmm = FindHmm(path)) return *std::move(hmm);
  Throw<InputError>(
      "'{}' carries no phones and states (hmm); is it a model of this program, trained from an alignment?",
      path.string());
}

}  // namespace antiphon::hmm
