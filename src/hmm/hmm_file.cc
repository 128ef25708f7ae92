#include "hmm/hmm_file.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "math/safetensors.h"

namespace antiphon::hmm {

namespace {

// A model begins with the size of its header, whose lowest byte may be a brace; its highest is 0.
bool IsJson(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  constexpr size_t kSizeBytes = 8;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' &&
         text.substr(0, kSizeBytes).find('\0') == std::string_view::npos;
}

}  // namespace

std::optional<HmmModel> FindHmm(const std::filesystem::path& path) {
  return WithContext(
      [&]() -> std::optional<HmmModel> {
        if (IsJson(path)) return HmmModel::FromJson(ReadFile(path));
        const std::string json = SafetensorsReader(path).Metadata("hmm");
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
