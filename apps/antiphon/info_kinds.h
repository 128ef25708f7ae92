// What antiphon info can say of the files and folders that the program writes and reads.
//
// Threads: pure functions. Errors: those of the readers of each kind.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

namespace antiphon::app {

/// Kinds are tried in their order; each says whether the place looks like one of its own.
struct InfoKind {
  const char* name;
  bool (*matches)(const std::filesystem::path&);
  /// `entries`: list at most so many of what there may be many.
  nlohmann::ordered_json (*describe)(const std::string& place, int entries);
};

/// Sound, language models, graphs, lattices.
std::span<const InfoKind> SpeechKinds();
/// Words and lists; results, records and configuration; folders that a command leaves.
std::span<const InfoKind> TextKinds();

/// Of antiphon lattices: text, and a script into it, which are no tables.
bool IsOfLattices(const std::filesystem::path& path);
bool HasEnding(const std::filesystem::path& path, std::initializer_list<std::string_view> endings);
bool HasName(const std::filesystem::path& path, std::initializer_list<std::string_view> names);

}  // namespace antiphon::app
