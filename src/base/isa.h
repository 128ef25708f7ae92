// The CPU's instruction sets that kernels are written for, best last, and the one that they may use.
//
// A level stands for everything up to it, as the CPUs of its time had: "avx512-bf16" has VNNI too, "avx512-amx" matrix
// registers for bytes and for bf16. "portable" is plain C++, the reference. The environment variable ANTIPHON_ISA
// lowers the limit for the whole process, `--isa` for a network's scores; nothing raises it above what the CPU has.
// Threads: any. Errors: UsageError naming what this CPU has.
#pragma once

#include <string_view>
#include <vector>

namespace antiphon {

enum class Isa { kPortable, kNeon, kSse4, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni, kAvx512Bf16, kAvx512Amx };

std::string_view IsaName(Isa isa);
/// "avx2" …; UsageError for a name that does not exist, or that this CPU lacks.
Isa ParseIsa(std::string_view name);
/// What this CPU has and the process may use, ascending; the first is kPortable.
const std::vector<Isa>& SupportedIsas();
inline Isa BestIsa() { return SupportedIsas().back(); }
bool IsSupported(Isa isa);
/// Whether the best instruction set includes this one: a level stands for everything up to it.
inline bool IsWithin(Isa isa) { return BestIsa() >= isa; }

}  // namespace antiphon
