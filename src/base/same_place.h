// Outputs that would destroy inputs are refused before anything is computed.
#pragma once

#include <filesystem>
#include <string_view>

namespace antiphon {

/// Whether both are one file or folder, which need not exist yet: links and dots are followed. Empty paths are nowhere.
bool IsSamePlace(const std::filesystem::path& a, const std::filesystem::path& b);

/// Throws UsageError if `written` is where `read` lies. `what` names what would be lost: "the transcripts in it".
void RequireOtherPlace(const std::filesystem::path& read, const std::filesystem::path& written, std::string_view what);

/// Throws UsageError if `read` lies in `folder`, or is it, whose contents will be overwritten.
void RequireOutside(const std::filesystem::path& read, const std::filesystem::path& folder);

}  // namespace antiphon
