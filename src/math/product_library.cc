#include "math/product_library.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/isa.h"
#include "base/suggest.h"
#include "math/gemm.h"

namespace antiphon {
namespace {

constexpr ProductLibrary kPacked = {"packed", &MultiplyPacked};
constexpr ProductLibrary kOneDnn = {"onednn", &MultiplyWithOneDnn};

const ProductLibrary& Choose(bool bf16) {
  const char* wanted = std::getenv("ANTIPHON_PRODUCTS");
  const std::string name = wanted == nullptr ? "" : wanted;
  if (!name.empty() && name != kPacked.name && name != kOneDnn.name) {
    throw UsageError(
        UnknownNameMessage("library for matrix products (ANTIPHON_PRODUCTS)", name, {kPacked.name, kOneDnn.name}));
  }
  if (name == kPacked.name || (bf16 && !OneDnnMultipliesBf16())) return kPacked;
  return name == kOneDnn.name || IsWithin(Isa::kAvx512) ? kOneDnn : kPacked;
}

}  // namespace

const ProductLibrary& LibraryFor(bool bf16) {
  if (bf16) {
    static const ProductLibrary& of_bf16 = Choose(true);
    return of_bf16;
  }
  static const ProductLibrary& of_fp32 = Choose(false);
  return of_fp32;
}

bool FastBf16() { return LibraryFor(true).multiply == kOneDnn.multiply; }

std::string GemmBackend() {
  const auto of = [](bool bf16) {
    const ProductLibrary& library = LibraryFor(bf16);
    return library.multiply == kOneDnn.multiply ? OneDnnName() : fmt::format("packed, {}", IsaName(BestIsa()));
  };
  const std::string fp32 = of(false), bf16 = of(true);
  return fp32 == bf16 ? fp32 : fmt::format("{} (bf16: {})", fp32, bf16);
}

}  // namespace antiphon
