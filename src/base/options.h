// Options: one struct per component, described once.
//
// A component's options are a plain struct with a Visit that names every field once; flags, configuration file,
// validation, help, printing and documentation derive from it.
//
//   struct BmufOptions {
//     int sync_period = 8;
//     double block_momentum = 0.75;
//     template <class V> void Visit(V& v) {
//       v("sync-period", sync_period, Range{1, 1 << 20}, "steps between block syncs");
//       v("block-momentum", block_momentum, Range{0.0, 0.999}, "weight of the last update");
//     }
//   };
//   const auto options = ReadOptions<BmufOptions>(config.Table("bmuf"));
//
// Types: bool, int, int64_t, float, double, std::string and vectors of int, double, std::string; nested structs by
// v.Group. Errors: UsageError with file:line for an unknown key (with the nearest known one), a wrong type or a value
// out of range.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config.h"

namespace antiphon {

/// Inclusive limits of a number (of each element, for vectors).
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

/// The permitted values of a string.
struct OneOf {
  std::vector<std::string> names;
};

using OptionRef = std::variant<bool*, int*, int64_t*, float*, double*, std::string*, std::vector<int>*,
                               std::vector<double>*, std::vector<std::string>*>;

/// What Visit sees; derived classes read, print or describe.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;

  template <class T>
  void operator()(std::string_view name, T& value, std::string_view help) {
    Visit(name, OptionRef(&value), Range{}, {}, help);
  }
  template <class T>
  void operator()(std::string_view name, T& value, const Range& range, std::string_view help) {
    Visit(name, OptionRef(&value), range, {}, help);
  }
  void operator()(std::string_view name, std::string& value, const OneOf& one_of, std::string_view help) {
    Visit(name, OptionRef(&value), Range{}, one_of, help);
  }
  /// A nested struct: its keys stand in the sub-table `name`.
  template <class S>
  void Group(std::string_view name, S& options) {
    BeginGroup(name);
    options.Visit(*this);
    EndGroup();
  }

 protected:
  virtual void Visit(std::string_view name, OptionRef value, const Range& range, const OneOf& one_of,
                     std::string_view help) = 0;
  virtual void BeginGroup(std::string_view name) = 0;
  virtual void EndGroup() = 0;
};

/// One line of help or documentation.
struct OptionDescription {
  std::string name;           // dotted for nested structs
  std::string type;           // "integer", "number", "text", "true|false", "list of integers", …
  std::string default_value;  // as TOML
  std::string limits;         // "1 … 1048576", "relu|sigmoid", or ""
  std::string help;
};

namespace internal {

/// Fills fields from `config`; afterwards Finish() refuses keys that no field took.
class OptionReader : public OptionVisitor {
 public:
  explicit OptionReader(Config config, std::vector<std::string> other_keys);
  void Finish() const;

 private:
  struct Level {
    Config config;
    std::string group;
    std::vector<std::string> known;
  };
  void Visit(std::string_view, OptionRef, const Range&, const OneOf&, std::string_view) override;
  void BeginGroup(std::string_view) override;
  void EndGroup() override;
  static void RefuseUnknown(const Level& level);

  std::vector<Level> levels_;
};

class OptionDescriber : public OptionVisitor {
 public:
  std::vector<OptionDescription> descriptions;

 private:
  void Visit(std::string_view, OptionRef, const Range&, const OneOf&, std::string_view) override;
  void BeginGroup(std::string_view) override;
  void EndGroup() override;
  std::string prefix_;
};

}  // namespace internal

/// Options from a table; fields that the table does not name keep the value of `defaults`. `other_keys` are keys of the
/// table that somebody else reads ("type", say).
template <class Options>
Options ReadOptions(const Config& config, std::vector<std::string> other_keys = {}, Options defaults = {}) {
  internal::OptionReader reader(config, std::move(other_keys));
  defaults.Visit(reader);
  reader.Finish();
  return defaults;
}

/// Every field with type, current value as default, limits and help.
template <class Options>
std::vector<OptionDescription> DescribeOptions(Options options = {}) {
  internal::OptionDescriber describer;
  options.Visit(describer);
  return std::move(describer.descriptions);
}

/// The effective values as a Config, for the run folder and for model files. ReadOptions of it gives the same options.
template <class Options>
Config OptionsToConfig(Options options) {
  Config config;
  for (const OptionDescription& d : DescribeOptions(std::move(options))) config.Set(d.name, d.default_value);
  return config;
}

}  // namespace antiphon
