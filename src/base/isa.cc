#include "base/isa.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/suggest.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace antiphon {
namespace {

struct Named {
  Isa isa;
  std::string_view name;
};

constexpr std::array<Named, 9> kNames = {{{Isa::kPortable, "portable"},
                                          {Isa::kNeon, "neon"},
                                          {Isa::kSse4, "sse4"},
                                          {Isa::kAvx2, "avx2"},
                                          {Isa::kAvxVnni, "avx-vnni"},
                                          {Isa::kAvx512, "avx512"},
                                          {Isa::kAvx512Vnni, "avx512-vnni"},
                                          {Isa::kAvx512Bf16, "avx512-bf16"},
                                          {Isa::kAvx512Amx, "avx512-amx"}}};

#if defined(__x86_64__)
// Matrix registers are 8 KB of state per thread, for which Linux wants to be asked.
bool MayUseMatrixRegisters() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

std::vector<Isa> Detect() {
  std::vector<Isa> found = {Isa::kPortable};
#if defined(__aarch64__)
  found.push_back(Isa::kNeon);
#elif defined(__x86_64__)
  // The compiler's checks include that the operating system keeps the registers.
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  bool avx_vnni = false, avx512_bf16 = false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    avx_vnni = (eax & (1U << 4)) != 0;
    avx512_bf16 = (eax & (1U << 5)) != 0;
  }
  if (__builtin_cpu_supports("sse4.2")) found.push_back(Isa::kSse4);
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (avx2) found.push_back(Isa::kAvx2);
  if (avx2 && avx_vnni) found.push_back(Isa::kAvxVnni);
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512) found.push_back(Isa::kAvx512);
  const bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
  if (vnni) found.push_back(Isa::kAvx512Vnni);
  if (vnni && avx512_bf16) found.push_back(Isa::kAvx512Bf16);
  constexpr unsigned kAmx = 1U << 22 | 1U << 24 | 1U << 25;  // for bf16, at all, for bytes
  const bool amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmx) == kAmx;
  if (vnni && avx512_bf16 && amx && MayUseMatrixRegisters()) found.push_back(Isa::kAvx512Amx);
#endif
  return found;
}

// ANTIPHON_ISA: nothing above it. A name above what the CPU has limits nothing.
std::vector<Isa> UpToLimit(std::vector<Isa> found) {
  const char* name = std::getenv("ANTIPHON_ISA");
  if (name == nullptr || *name == '\0') return found;
  const auto limit = std::find_if(kNames.begin(), kNames.end(), [&](const Named& n) { return n.name == name; });
  if (limit == kNames.end()) {
    std::vector<std::string> names;
    for (const Named& n : kNames) names.emplace_back(n.name);
    throw UsageError(UnknownNameMessage("instruction set (ANTIPHON_ISA)", name, names));
  }
  std::erase_if(found, [&](Isa isa) { return isa > limit->isa; });
  return found;
}

}  // namespace

std::string_view IsaName(Isa isa) {
  return std::find_if(kNames.begin(), kNames.end(), [&](const Named& n) { return n.isa == isa; })->name;
}

const std::vector<Isa>& SupportedIsas() {
  static const std::vector<Isa> isas = UpToLimit(Detect());
  return isas;
}

bool IsSupported(Isa isa) {
  return std::find(SupportedIsas().begin(), SupportedIsas().end(), isa) != SupportedIsas().end();
}

Isa ParseIsa(std::string_view name) {
  std::vector<std::string> supported;
  for (const Isa isa : SupportedIsas()) supported.emplace_back(IsaName(isa));
  for (const Named& named : kNames) {
    if (named.name != name) continue;
    if (IsSupported(named.isa)) return named.isa;
    std::string list;
    for (const std::string& s : supported) list += (list.empty() ? "" : ", ") + s;
    Throw<UsageError>("this CPU lacks instruction set '{}'; it has {}", name, list);
  }
  throw UsageError(UnknownNameMessage("instruction set", name, supported));
}

}  // namespace antiphon
