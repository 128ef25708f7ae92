#include "pipeline/compress_request.h"

#include <fmt/format.h>

#include "pipeline/method_tables.h"

namespace antiphon::pipeline {

std::vector<std::string> CompressTables() {
  return TablesOfMethods<compress::MethodRegistry>({"optimizer", "decode", "variants"});
}

void TakeTables(const Config& config, CompressRequest& request) {
  request.compression.own_held_out = train::SaysWhatIsHeldOut(config);
  request.optimizer = config.Table("optimizer");
  if (!request.optimizer.Has("type")) request.optimizer.Set("type", "\"natural-gradient\"");
  if (!request.method.empty())
    request.method_options = OptionsOfMethod<compress::MethodRegistry>(request.method, config);
}

std::shared_ptr<const data::FrameStore> OpenStore(const std::string& folder, const data::ShardCacheOptions& cache) {
  if (folder.empty()) return nullptr;
  data::FrameStoreAccess access;
  access.cache = cache;
  return std::make_shared<const data::FrameStore>(folder, access);
}

std::string StoreKey(const std::shared_ptr<const data::FrameStore>& store) {
  return store ? fmt::format("{:016x}", store->fingerprint()) : "";
}

}  // namespace antiphon::pipeline
