#include "report/metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/printed_json.h"
#include "report/append_file.h"

namespace antiphon::report {
namespace {

using Json = nlohmann::ordered_json;

Json ToJsonValue(const MetricsValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>) {
          return std::isfinite(v) ? Json(v) : Json(nullptr);
        } else {
          return Json(v);
        }
      },
      value);
}

MetricsValue FromJsonValue(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_null()) return std::nan("");
  if (json.is_array()) {
    std::vector<double> values;
    for (const Json& element : json) values.push_back(element.is_number() ? element.get<double>() : std::nan(""));
    return values;
  }
  return json.is_string() ? json.get<std::string>() : json.dump();
}

}  // namespace

MetricsRecord& MetricsRecord::SetValue(std::string name, MetricsValue value) {
  for (auto& [known, old] : fields_) {
    if (known == name) {
      old = std::move(value);
      return *this;
    }
  }
  fields_.emplace_back(std::move(name), std::move(value));
  return *this;
}

const MetricsValue* MetricsRecord::Find(std::string_view name) const {
  for (const auto& [known, value] : fields_) {
    if (known == name) return &value;
  }
  return nullptr;
}

std::optional<double> MetricsRecord::Number(std::string_view name) const {
  const MetricsValue* value = Find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(value)) return *real;
  return std::nullopt;
}

std::vector<double> MetricsRecord::List(std::string_view name) const {
  const MetricsValue* value = Find(name);
  const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<double>>(value);
  return list == nullptr ? std::vector<double>() : *list;
}

std::string MetricsRecord::Text(std::string_view name) const {
  const MetricsValue* value = Find(name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::string() : *text;
}

std::string MetricsRecord::ToJson() const {
  Json json = Json::object();
  for (const auto& [name, value] : fields_) json[name] = ToJsonValue(value);
  // Bytes that are no UTF-8 (an odd path, say) must not end a run.
  return PrintedJson(json);
}

MetricsWriter::MetricsWriter(std::filesystem::path path, uint64_t keep_bytes) : path_(std::move(path)) {
  file_ = OpenForAppending(path_, keep_bytes);
  position_ = keep_bytes;
}

void MetricsWriter::Write(const MetricsRecord& record) {
  const std::string line = record.ToJson() + "\n";
  AppendWhole(file_.get(), path_, position_, line);
  position_ += line.size();
}

MetricsRecord RecordOf(std::string_view json) {
  const Json object = Json::parse(json.begin(), json.end(), nullptr, false);
  if (!object.is_object()) throw InputError("expected a JSON object");
  MetricsRecord record;
  for (const auto& [name, value] : object.items()) record.Set(name, FromJsonValue(value));
  return record;
}

std::vector<MetricsRecord> ReadMetrics(const std::filesystem::path& path) {
  const std::string text = ReadFile(path);
  std::vector<MetricsRecord> records;
  size_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    ++line_number;
    records.push_back(WithContext([&] { return RecordOf(std::string_view(text).substr(begin, end - begin)); },
                                  [&] { return fmt::format("{}:{}", path.string(), line_number); }));
    begin = end + 1;
  }
  return records;
}

uint64_t BytesOfWholeRecords(const std::filesystem::path& path) { return ReadFile(path).rfind('\n') + 1; }

}  // namespace antiphon::report
