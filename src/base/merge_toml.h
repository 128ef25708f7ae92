// Lays one table of configuration over another.
#pragma once

#include <string>
#include <string_view>

namespace antiphon {

/// The TOML text of `table` with every value of `over` in it, table by table. A table in `over` that names its `type`
/// replaces the other as a whole, since another type has other keys.
/// Both must be sound TOML (Config::ToToml's, say); UsageError otherwise.
std::string MergeToml(std::string_view table, std::string_view over);

}  // namespace antiphon
