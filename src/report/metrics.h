// Metrics as JSON lines: one record per line, appended while a run goes on, readable by anything.
//
// A record is a list of named values in a fixed order. The file grows by whole lines; a line cut short by a crash is
// the last one and ReadMetrics leaves it out. A resumed run truncates the file to the position that its checkpoint
// holds, so that no step is counted twice. Units: stated by the name of each field (_ms, _hz, _frames …). JSON has no
// NaN or infinity: they become null. Threads: one thread per writer. Errors: IoError naming the file; InputError for a
// broken line with file:line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/file_descriptor.h"

namespace antiphon::report {

using MetricsValue = std::variant<int64_t, double, bool, std::string, std::vector<double>>;

/// Named values of one moment, in order.
class MetricsRecord {
 public:
  MetricsRecord() = default;
  /// `kind` is the first field and says what the record is about: "step", "epoch", "event" …
  explicit MetricsRecord(std::string kind) { Set("kind", std::move(kind)); }

  /// Sets or replaces; any number, truth value, text or list of numbers.
  template <class T>
  MetricsRecord& Set(std::string name, T&& value) {
    using Plain = std::decay_t<T>;
    if constexpr (std::is_same_v<Plain, bool>) {
      return SetValue(std::move(name), MetricsValue(value));
    } else if constexpr (std::is_integral_v<Plain>) {
      return SetValue(std::move(name), MetricsValue(static_cast<int64_t>(value)));
    } else if constexpr (std::is_floating_point_v<Plain>) {
      return SetValue(std::move(name), MetricsValue(static_cast<double>(value)));
    } else if constexpr (std::is_convertible_v<T, std::string>) {
      return SetValue(std::move(name), MetricsValue(std::string(std::forward<T>(value))));
    } else {
      return SetValue(std::move(name), MetricsValue(std::forward<T>(value)));
    }
  }

  const std::vector<std::pair<std::string, MetricsValue>>& fields() const { return fields_; }
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  /// Numbers of any type as double; nullopt if missing or not a number.
  std::optional<double> Number(std::string_view name) const;
  /// Empty if missing or not a list of numbers.
  std::vector<double> List(std::string_view name) const;
  /// "" if missing or not a text.
  std::string Text(std::string_view name) const;
  std::string kind() const { return Text("kind"); }

  /// One line, without the line break.
  std::string ToJson() const;

 private:
  MetricsRecord& SetValue(std::string name, MetricsValue value);
  const MetricsValue* Find(std::string_view name) const;
  std::vector<std::pair<std::string, MetricsValue>> fields_;
};

/// Appends records to a file.
class MetricsWriter {
 public:
  /// Keeps the first `keep_bytes` of an existing file (0: starts anew) and appends behind them.
  explicit MetricsWriter(std::filesystem::path path, uint64_t keep_bytes = 0);

  /// The line is with the operating system when this returns.
  void Write(const MetricsRecord& record);
  /// Bytes so far, for checkpoints.
  uint64_t position() const { return position_; }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t position_ = 0;
};

/// What ToJson gave. InputError for anything else.
MetricsRecord RecordOf(std::string_view json);

/// All whole records of a file.
std::vector<MetricsRecord> ReadMetrics(const std::filesystem::path& path);
/// How many bytes they have.
uint64_t BytesOfWholeRecords(const std::filesystem::path& path);

}  // namespace antiphon::report
