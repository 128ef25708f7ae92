// The page that shows what an adaptation did: figures before and after, every ρ that was tried, where in the run the
// new speech stood.
#pragma once

#include <string>

#include "train/adaptation.h"

namespace antiphon::train {

/// HTML in one file.
std::string AdaptationPage(const AdaptationResult& result, const std::string& method);

}  // namespace antiphon::train
