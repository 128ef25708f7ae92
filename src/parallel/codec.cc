#include "parallel/codec.h"

#include <cstring>

#include "base/error.h"

namespace antiphon::parallel {

std::string CodecName(const Config& config) { return config.Text("type").value_or("fp32"); }

std::unique_ptr<Codec> MakeCodec(const Config& config) {
  const std::string type = CodecName(config);
  return WithContext([&] { return CodecRegistry::Get().Create(type, config); },
                     [&] { return config.Where("type") + ": codec"; });
}

size_t TakeBytes(std::span<const std::byte> code, std::span<std::byte> target) {
  if (code.size() < target.size()) {
    Throw<InputError>(
        "a gradient's code ends after {} bytes, expected {} more: damaged on its way, or the ranks do "
        "not run the same experiment",
        code.size(), target.size());
  }
  if (!target.empty()) std::memcpy(target.data(), code.data(), target.size());
  return target.size();
}

void AppendBytes(std::span<const std::byte> bytes, Code& code) { code.insert(code.end(), bytes.begin(), bytes.end()); }

}  // namespace antiphon::parallel
