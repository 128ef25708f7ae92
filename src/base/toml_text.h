// TOML as text, without the tree behind it (base/config.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace antiphon {

/// Any text as a TOML string: in double quotes, with quotes, backslashes and control characters escaped.
std::string TomlString(std::string_view text);

/// The keys of `toml` as the table `name` of a larger file: sub-tables become [name.sub]. UsageError if it is no TOML.
std::string TomlAsTable(std::string_view name, std::string_view toml);

/// The tables as one TOML value: [{…}, {…}].
std::string InlineTomlTables(const std::vector<Config>& tables);

/// The value at `key`, so that Config::Set takes the text for the same one: a list as [ 0.9, 1.1 ], a table as { … }, a
/// text without its quotes. UsageError if there is nothing.
std::string ValueAsToml(const Config& config, std::string_view key);

}  // namespace antiphon
