// What can be told to be wrong before a compression, an adaptation, a decoding or an alignment runs, from what it is
// asked for alone.
//
// Threads: pure functions. Errors: UsageError for names and options, InputError for a model file that is not whole.
#pragma once

#include <string>

#include "base/config.h"

namespace antiphon {

/// That the family ("compression", "adaptation"; train/component_options.h) has this method, with these options.
void CheckMethod(const std::string& family, const std::string& method, const Config& options);
/// The same of the optimiser that the table names.
void CheckOptimizer(const Config& optimizer);
/// That the model of this file, bundle or folder is there, whole. Whether it is one that a method can treat is not
/// looked at.
void CheckModelFile(const std::string& model);

}  // namespace antiphon
