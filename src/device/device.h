// Where arithmetic runs. This program computes on the CPU; kernels are keyed by device (kernel_table.h) so that another
// can come beside it.
//
// Threads: plain functions. Errors: UsageError for a device that this build or machine lacks.
#pragma once

#include <string>
#include <string_view>

namespace antiphon {

enum class DeviceKind { kCpu, kCuda };
enum class DataType { kFloat32, kBf16, kInt8 };

std::string_view DeviceKindName(DeviceKind kind);
std::string_view DataTypeName(DataType type);

/// Throws UsageError unless `name` ("cpu", "cuda:1") is a device that can be used; says why it cannot.
void RequireDevice(std::string_view name);

/// "AMD EPYC 9B45, 2 core(s)".
std::string DescribeCpu();

}  // namespace antiphon
