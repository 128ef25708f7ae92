// Lays one table of configuration over another, takes tables out of one, and replaces texts.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace antiphon {

/// The TOML text of `table` with every value of `over` in it, table by table. A table in `over` that names its `type`
/// replaces the other as a whole, since another type has other keys.
/// Both must be sound TOML (Config::ToToml's, say); UsageError otherwise.
std::string MergeToml(std::string_view table, std::string_view over);

/// The TOML text of `table` without the tables in lists, at any depth, whose value of `key` does not hold; those that
/// stay lose the key. `holds` is asked with the value as text (lists as TOML). UsageError unless it is sound TOML.
std::string KeepTomlTables(std::string_view table, std::string_view key,
                           const std::function<bool(const std::string&)>& holds);

/// The TOML text of `table` with every text in it, at any depth, replaced by what `value_of` gives for it: a value as
/// TOML (TomlString for a text). Keys stay. UsageError unless `table` and the values are sound TOML.
std::string MapTomlTexts(std::string_view table, const std::function<std::string(const std::string&)>& value_of);

}  // namespace antiphon
