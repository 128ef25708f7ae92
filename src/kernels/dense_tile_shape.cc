#include "kernels/dense_tile.h"

namespace antiphon {

DenseTileShape DenseTileShapeOf(DataType type, std::string_view variant) {
  if (variant == "avx512-amx" && type != DataType::kFloat32) return {.rows = 32, .step = 16};
  if (variant == "avx512-vnni" && type == DataType::kInt8) return {.rows = 12};
  if (type != DataType::kFloat32) return {};
  // Many rows share a strip while it is in the cache.
  if (variant == "avx512") return {.rows = kMostTileRows, .strip = 32};
  if (variant == "avx2") return {.rows = kMostTileRows, .strip = 16};
  if (variant == "sse4" || variant == "neon") return {.rows = kMostTileRows, .strip = 8};
  return {};
}

DenseTileShape ShortSumTileShapeOf(std::string_view variant) {
  return {.rows = kMostTileRows, .strip = variant == "avx2" ? 16 : 8};
}

}  // namespace antiphon
