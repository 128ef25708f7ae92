// Frame stores: the input, cut at "\f\f", gives store.json and index.bin. Real stores carry checksums, which random
// bytes never pass; here they are made right, so that what lies behind them must hold by itself.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/frame_store_format.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace antiphon;
  using Json = nlohmann::json;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = input.find("\f\f");
  const std::string_view index = cut == std::string_view::npos ? std::string_view() : input.substr(cut + 2);
  Json json = Json::parse(input.substr(0, cut), nullptr, false);
  if (json.is_object()) {
    json.erase("checksum");
    json["index_bytes"] = index.size();
    json["index_checksum"] = fmt::format("{:016x}", Checksum(index));
    json["checksum"] = fmt::format("{:016x}", Checksum(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  try {
    const auto header = data::internal::HeaderFromJson(json.dump(-1, ' ', false, Json::error_handler_t::replace));
    data::internal::IndexFromBytes(index, "index.bin", header);
  } catch (const InternalError&) {
    throw;
  } catch (const Error&) {
  }
  return 0;
}
