// Devices as a person names several: "cuda:0,cuda:1".
//
// Threads: plain functions. Errors: UsageError for a device that this build or machine lacks.
#pragma once

#include <string_view>

namespace antiphon {

/// RequireDevice for each name of a list with commas.
void RequireDevices(std::string_view names);

}  // namespace antiphon
