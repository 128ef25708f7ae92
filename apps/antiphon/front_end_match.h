// Whether features were computed the way that a model expects.
#pragma once

#include <string>

namespace antiphon::app {

/// InputError naming the first difference between what front_end.toml beside the feature table `features` says and the
/// model's own description (TOML); nothing if one of them says nothing. Dither may differ.
void RequireFrontEnd(const std::string& features, const std::string& expected, const std::string& model);

}  // namespace antiphon::app
