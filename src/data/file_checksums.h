// Checksums of files that are text, or made of pieces, so that one that was cut at the end of a line or of a piece
// reads well and teaches something else.
//
// Of a table, they are kept beside it: NAME.checksums.json beside NAME.ark and NAME.scp, an object with one XXH3 by
// file name. Tables of others have none and are taken as they are. Threads: pure functions. Errors: InputError naming
// the file that is not what was written; IoError.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace antiphon::data {

/// {"NAME": checksum, …} of files in `folder`.
nlohmann::json ChecksumsOf(const std::filesystem::path& folder, std::span<const std::string> names);
/// Whether `sums` says of `name` in `folder` what is there.
bool IsAsWritten(const std::filesystem::path& folder, const std::string& name, const nlohmann::json& sums);

/// Where the checksums of a table's archive and script are kept, given either.
std::filesystem::path ChecksumFileOf(const std::filesystem::path& table_file);
/// Of a finished table, whose archive is `ark`.
void WriteTableChecksums(const std::filesystem::path& ark, bool with_script);
/// `table` as in data/archive.h: its script and the archives that this names are as they were written, those of them
/// that have checksums. Reads the files through.
void RequireTableAsWritten(std::string_view table);

}  // namespace antiphon::data
