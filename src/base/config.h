// A table of configuration: TOML text with the place of every value, so that errors name file and line.
//
// Config is a cheap handle on a shared tree; copies see the same table. Keys are dotted paths ("optim.learning-rate").
// Errors: UsageError naming file:line, key, what was expected and what was found; IoError for the file itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon {

class Config {
 public:
  /// An empty table.
  Config();
  static Config Load(const std::filesystem::path& path);
  /// `source` stands in for the file name in errors.
  static Config Parse(std::string_view text, std::string source);

  /// Keys of this table, in the order of the file.
  std::vector<std::string> Keys() const;
  bool Has(std::string_view key) const;
  bool IsTable(std::string_view key) const;
  /// The sub-table `key`; an empty one if it is missing. UsageError if the value is not a table.
  Config Table(std::string_view key) const;
  /// The tables of the array `key` ([[key]] in TOML, or inline); none if it is missing.
  std::vector<Config> Tables(std::string_view key) const;

  /// Sets a value given as TOML; text that is not a TOML value is taken as a string, so that --set device=cuda works.
  /// UsageError for what is not UTF-8.
  void Set(std::string_view dotted_key, std::string_view toml_value);
  /// "key=value" as it stands behind --set.
  void SetFromFlag(std::string_view assignment);

  // Values; nullopt if missing, UsageError if of another type. A whole number serves as a real one.
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<int64_t> Int(std::string_view key) const;
  std::optional<double> Real(std::string_view key) const;
  std::optional<std::string> Text(std::string_view key) const;
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const;
  std::optional<std::vector<double>> Reals(std::string_view key) const;
  std::optional<std::vector<std::string>> Texts(std::string_view key) const;
  /// A scalar of any type as text, without quotes; a list as its elements separated by blanks. Nullopt if missing.
  std::optional<std::string> AnyAsText(std::string_view key) const;
  /// Text of a key that must be there.
  std::string RequiredText(std::string_view key) const;

  /// "recipe.toml:12" for a key (or this table), as far as known.
  std::string Where(std::string_view key = {}) const;
  std::string ToToml() const;

 private:
  struct Impl;
  explicit Config(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace antiphon
