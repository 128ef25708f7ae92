#include "machine.h"

#include <cblas.h>
#include <fmt/format.h>
#include <hwy/highway.h>
#include <sndfile.h>
#include <soxr.h>

#include <cstdlib>
#include <dnnl.hpp>
#include <filesystem>
#include <fstream>

#include "base/thread_pool.h"
#include "comm/process_group.h"
#include "data/remote_folder.h"
#include "device/cuda.h"
#include "math/gemm.h"

namespace antiphon::app {
namespace {

std::string LibcurlText() {
  const std::string library = data::CurlLibrary();
  return library.empty() ? "this program was built without libcurl; it reads no stores on servers" : library;
}

std::string FieldOf(const char* file, std::string_view field) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(field)) continue;
    const size_t start = line.find_first_not_of(" \t", line.find(':') + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// Instruction sets that speed depends on, as far as this CPU has them.
std::string InstructionSets() {
#if defined(__x86_64__)
  const std::string flags = " " + FieldOf("/proc/cpuinfo", "flags") + " ";
  constexpr const char* kNames[] = {"sse4_2",      "avx2",        "fma",      "f16c",     "avx512f",  "avx512bw",
                                    "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8"};
#else
  const std::string flags = " " + FieldOf("/proc/cpuinfo", "Features") + " ";
  constexpr const char* kNames[] = {"asimd", "fphp", "asimddp", "bf16", "i8mm", "sve", "sve2"};
#endif
  std::string found;
  for (const char* name : kNames) {
    if (flags.find(fmt::format(" {} ", name)) != std::string::npos)
      found += (found.empty() ? "" : " ") + std::string(name);
  }
  return found.empty() ? "none of those that speed depends on" : found;
}

std::string OneDnnKernels() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "default";
  }
}

std::string Gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024.0 * 1024.0)); }

double KibField(std::string_view field) { return 1024.0 * std::atof(FieldOf("/proc/meminfo", field).c_str()); }

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string HighwayTarget() {
  const int64_t targets = hwy::SupportedTargets();
  return hwy::TargetName(targets & -targets);  // the lowest bit is the best one
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ExamineMachine(const std::string& folder) {
  const auto disk = std::filesystem::space(folder);
  return {
      {"antiphon", ANTIPHON_VERSION},
      {"cpu", FieldOf("/proc/cpuinfo", "model name")},
      {"cores", fmt::format("{} usable by this process", NumCores())},
      {"instruction sets", InstructionSets()},
      {"matrix products", GemmBackend()},
      {"precision \"auto\"", fmt::format("{} in training", PrecisionName(ParsePrecision("auto")))},
      {"memory", fmt::format("{}, {} available", Gib(KibField("MemTotal")), Gib(KibField("MemAvailable")))},
      {"disk", fmt::format("{} free in '{}'", Gib(static_cast<double>(disk.available)), folder)},
      {"oneDNN", fmt::format("{}, kernels up to {}", OneDnnVersion(), OneDnnKernels())},
      {"OpenBLAS", fmt::format("{}, kernels {}", openblas_get_config(), openblas_get_corename())},
      {"Highway", fmt::format("{}.{}.{}, kernels {}", HWY_MAJOR, HWY_MINOR, HWY_PATCH, HighwayTarget())},
      {"libsndfile", sf_version_string()},
      {"soxr", soxr_version()},
      {"fmt", fmt::format("{}", FMT_VERSION)},
      {"MPI", comm::MpiLibrary()},
      {"libcurl", LibcurlText()},
      {"CUDA", CudaState()},
  };
}

std::vector<std::string> MachineWarnings(const std::string& folder) {
  std::vector<std::string> warnings;
  for (const char* name : {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    if (const char* value = std::getenv(name); value != nullptr) {
      warnings.push_back(fmt::format("{}={} pins old kernels, which may be slow: unset {}", name, value, name));
    }
  }
  for (const char* name : {"ANTIPHON_ISA", "ANTIPHON_PRODUCTS"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      warnings.push_back(
          fmt::format("{}={} limits what the arithmetic uses: unset {} for full speed", name, value, name));
    }
  }
  if (std::filesystem::space(folder).available < (2ULL << 30)) {
    warnings.push_back(fmt::format("less than 2 GiB free in '{}'", folder));
  }
  return warnings;
}

std::vector<std::string> MachineText(const std::string& folder) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : ExamineMachine(folder)) lines.push_back(fmt::format("{:<18} {}", name, value));
  for (const std::string& warning : MachineWarnings(folder))
    lines.push_back(fmt::format("{:<18} {}", "warning", warning));
  return lines;
}

}  // namespace antiphon::app
