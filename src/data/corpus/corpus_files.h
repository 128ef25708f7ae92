// What readers of corpora share: finding manifests, lines of text and of JSON.
//
// Threads: pure functions. Errors: IoError; InputError naming the file.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/transcript_rows.h"

namespace antiphon::data {

/// `place` itself if it is a file, else the file in it whose name holds all of `pieces`. InputError if there is none,
/// naming `expected`, or several, naming them.
std::filesystem::path FindManifest(const std::filesystem::path& place, const std::vector<std::string>& pieces,
                                   const std::string& expected);

/// The folder of a manifest, or `place` if it is a folder.
std::filesystem::path FolderOf(const std::filesystem::path& place);
/// `place`/`name` if there is such a folder, else `place`.
std::filesystem::path Below(const std::filesystem::path& place, const std::string& name);

/// The folder that all rows' files lie below, if all have absolute paths with one above the root; else `place`.
std::filesystem::path AudioFolderOf(const std::vector<TranscriptRow>& rows, const std::filesystem::path& place);

/// Lines without their ends, as UTF-8 without a byte order mark; gzip is unpacked. `where` is FILE:LINE.
void EachLine(const std::filesystem::path& file,
              const std::function<void(std::string_view line, const std::string& where)>& visit);

/// An object per line. Lines that are none, and those for which `visit` throws InputError or a JSON error (a key that
/// is missing or of another kind), are reported in `problems`. InputError if not one line could be used.
void EachJsonLine(const std::filesystem::path& file, std::vector<DataProblem>& problems,
                  const std::function<void(const nlohmann::json& object, const std::string& where)>& visit);

/// The first of `keys` that is there, as text: numbers are written out. "" if none is.
std::string TextAt(const nlohmann::json& object, const std::vector<std::string>& keys);

}  // namespace antiphon::data
