// What the system refused, as an error that says what to do.
#pragma once

#include <filesystem>
#include <string_view>

namespace antiphon {

/// Throws IoError: "cannot OPERATION 'PATH': reason", with what to do for a full disk (`when_full`) and lacking rights.
/// `error` is an errno.
[[noreturn]] void ThrowIo(std::string_view operation, const std::filesystem::path& path, int error,
                          std::string_view when_full = "free some space or choose another folder");

/// The folder and those it lies in, where they are missing. Throws IoError.
void MakeFolder(const std::filesystem::path& folder);

}  // namespace antiphon
