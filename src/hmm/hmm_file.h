// The phones and states that a file knows: a model's, of either kind, or those alone, as JSON.
//
// Threads: pure functions. Errors: InputError naming the file.
#pragma once

#include <filesystem>
#include <optional>

#include "hmm/hmm_model.h"

namespace antiphon::hmm {

/// Of a model (safetensors), none if it was trained without; or of JSON as HmmModel::ToJson writes it, which begins
/// with a brace. InputError for a file that is neither.
std::optional<HmmModel> FindHmm(const std::filesystem::path& path);
/// The same; InputError if the model has none.
HmmModel LoadHmm(const std::filesystem::path& path);

}  // namespace antiphon::hmm
