#include "base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "base/option_recorder.h"
#include "base/suggest.h"
#include "base/toml_text.h"

namespace antiphon {
namespace {

thread_local OptionRecorder* current_recorder = nullptr;

}  // namespace

OptionRecorder::OptionRecorder() : outer_(current_recorder) { current_recorder = this; }

OptionRecorder::~OptionRecorder() { current_recorder = outer_; }

OptionRecorder* OptionRecorder::Current() { return current_recorder; }

namespace internal {
namespace {

std::string ToToml(bool value) { return value ? "true" : "false"; }
std::string ToToml(int value) { return fmt::format("{}", value); }
std::string ToToml(int64_t value) { return fmt::format("{}", value); }
std::string ToToml(const std::string& value) { return TomlString(value); }
std::string ToToml(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}
std::string ToToml(float value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}
template <class T>
std::string ToToml(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(ToToml(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

template <class T>
constexpr std::string_view kTypeName = "";
template <>
constexpr std::string_view kTypeName<bool> = "true|false";
template <>
constexpr std::string_view kTypeName<int> = "integer";
template <>
constexpr std::string_view kTypeName<int64_t> = "integer";
template <>
constexpr std::string_view kTypeName<float> = "number";
template <>
constexpr std::string_view kTypeName<double> = "number";
template <>
constexpr std::string_view kTypeName<std::string> = "text";
template <>
constexpr std::string_view kTypeName<std::vector<int>> = "list of integers";
template <>
constexpr std::string_view kTypeName<std::vector<double>> = "list of numbers";
template <>
constexpr std::string_view kTypeName<std::vector<std::string>> = "list of texts";

std::string Limits(const Range& range, const OneOf& one_of) {
  if (!one_of.names.empty()) return fmt::format("{}", fmt::join(one_of.names, "|"));
  if (std::isinf(range.min) && std::isinf(range.max)) return "";
  if (std::isinf(range.max)) return fmt::format("≥ {}", range.min);
  if (std::isinf(range.min)) return fmt::format("≤ {}", range.max);
  return fmt::format("{} … {}", range.min, range.max);
}

void CheckRange(double value, const Range& range, const Config& config, std::string_view key) {
  if (value >= range.min && value <= range.max) return;  // refuses NaN too
  Throw<UsageError>("{}: '{}' is {}, must be {}", config.Where(key), key, value, Limits(range, {}));
}

template <class T>
T Narrow(int64_t value, const Config& config, std::string_view key) {
  CheckRange(static_cast<double>(value),
             {static_cast<double>(std::numeric_limits<T>::min()), static_cast<double>(std::numeric_limits<T>::max())},
             config, key);
  return static_cast<T>(value);
}

// Reads one field of each type; leaves it alone if the key is missing.
struct FieldReader {
  const Config& config;
  std::string key;
  const Range& range;
  const OneOf& one_of;

  void operator()(bool* field) const {
    if (const auto value = config.Bool(key)) *field = *value;
  }
  void operator()(std::string* field) const {
    if (const auto value = config.Text(key)) {
      if (!one_of.names.empty() && std::find(one_of.names.begin(), one_of.names.end(), *value) == one_of.names.end()) {
        throw UsageError(fmt::format("{}: {}", config.Where(key), UnknownNameMessage(key, *value, one_of.names)));
      }
      *field = *value;
    }
  }
  void operator()(std::vector<std::string>* field) const {
    if (const auto value = config.Texts(key)) *field = *value;
  }
  void operator()(std::vector<int>* field) const {
    if (const auto values = config.Ints(key)) {
      field->clear();
      for (const int64_t value : *values) {
        CheckRange(static_cast<double>(value), range, config, key);
        field->push_back(Narrow<int>(value, config, key));
      }
    }
  }
  void operator()(std::vector<double>* field) const {
    if (const auto values = config.Reals(key)) {
      for (const double value : *values) CheckRange(value, range, config, key);
      *field = *values;
    }
  }
  template <class T>
  void operator()(T* field) const {
    if constexpr (std::is_integral_v<T>) {
      if (const auto value = config.Int(key)) {
        CheckRange(static_cast<double>(*value), range, config, key);
        *field = Narrow<T>(*value, config, key);
      }
    } else {
      if (const auto value = config.Real(key)) {
        CheckRange(*value, range, config, key);
        *field = static_cast<T>(*value);
      }
    }
  }
};

OptionDescription Describe(std::string name, OptionRef value, const Range& range, const OneOf& one_of,
                           std::string_view help) {
  return std::visit(
      [&](auto* field) {
        using T = std::remove_pointer_t<decltype(field)>;
        return OptionDescription{std::move(name), std::string(kTypeName<T>), ToToml(*field), Limits(range, one_of),
                                 std::string(help)};
      },
      value);
}

}  // namespace

OptionReader::OptionReader(Config config, std::vector<std::string> other_keys) {
  levels_.push_back({std::move(config), "", std::move(other_keys)});
  if (auto* recorder = OptionRecorder::Current()) recorder->Begin();
}

void OptionReader::Finish() const {
  RefuseUnknown(levels_.back());
  if (auto* recorder = OptionRecorder::Current()) recorder->End();
}

void OptionReader::Visit(std::string_view name, OptionRef value, const Range& range, const OneOf& one_of,
                         std::string_view help) {
  levels_.back().known.emplace_back(name);
  if (auto* recorder = OptionRecorder::Current()) {
    std::string path;
    for (const Level& level : levels_) path += level.group.empty() ? "" : level.group + ".";
    recorder->Take(Describe(path + std::string(name), value, range, one_of, help));
  }
  std::visit(FieldReader{levels_.back().config, std::string(name), range, one_of}, value);
}

void OptionReader::BeginGroup(std::string_view name) {
  levels_.back().known.emplace_back(name);
  Config table = levels_.back().config.Table(name);
  levels_.push_back({std::move(table), std::string(name), {}});
}

void OptionReader::EndGroup() {
  RefuseUnknown(levels_.back());
  levels_.pop_back();
}

void OptionReader::RefuseUnknown(const Level& level) {
  for (const std::string& key : level.config.Keys()) {
    if (std::find(level.known.begin(), level.known.end(), key) != level.known.end()) continue;
    const std::string where = level.group.empty() ? "" : fmt::format(" in [{}]", level.group);
    throw UsageError(
        fmt::format("{}: {}", level.config.Where(key), UnknownNameMessage("key" + where, key, level.known)));
  }
}

void OptionDescriber::Visit(std::string_view name, OptionRef value, const Range& range, const OneOf& one_of,
                            std::string_view help) {
  descriptions.push_back(Describe(prefix_ + std::string(name), value, range, one_of, help));
}

void OptionDescriber::BeginGroup(std::string_view name) { prefix_ += std::string(name) + "."; }

void OptionDescriber::EndGroup() {
  const size_t dot = prefix_.rfind('.', prefix_.size() - 2);
  prefix_.erase(dot == std::string::npos ? 0 : dot + 1);
}

}  // namespace internal
}  // namespace antiphon
