#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace antiphon {

// The root keeps the tree alive; `table` points into it. A handle on a missing table has an empty one of its own.
struct Config::Impl {
  std::shared_ptr<toml::table> root;
  toml::table* table = nullptr;
  std::string source;
};

namespace {

std::string Describe(const toml::node& node) {
  std::ostringstream type;
  type << node.type();
  return type.str();
}

// A value that did not come from the file has no line: it was set by an option or by the program.
std::string Place(const std::string& source, const toml::node* node) {
  if (node == nullptr) return source;
  return node->source().begin.line > 0 ? fmt::format("{}:{}", source, node->source().begin.line) : "(options)";
}

// The value as T, or UsageError; Integers serve as doubles.
template <class T>
T ValueAs(const toml::node& node, const std::string& source, std::string_view key, std::string_view expected) {
  if constexpr (std::is_same_v<T, double>) {
    if (const auto value = node.value<double>(); value && node.is_number()) return *value;
  } else {
    if (const auto value = node.value_exact<T>()) return *value;
  }
  Throw<UsageError>("{}: '{}' must be {}, found {}", Place(source, &node), key, expected, Describe(node));
}

template <class T>
std::optional<T> Get(const toml::table& table, const std::string& source, std::string_view key,
                     std::string_view expected) {
  const auto node = table.at_path(key);
  if (!node) return std::nullopt;
  return ValueAs<T>(*node.node(), source, key, expected);
}

template <class T>
std::optional<std::vector<T>> GetList(const toml::table& table, const std::string& source, std::string_view key,
                                      std::string_view expected) {
  const auto node = table.at_path(key);
  if (!node) return std::nullopt;
  const toml::array* array = node.as_array();
  if (array == nullptr) {
    Throw<UsageError>("{}: '{}' must be a list of {}, found {}", Place(source, node.node()), key, expected,
                      Describe(*node.node()));
  }
  std::vector<T> values;
  for (const toml::node& element : *array) values.push_back(ValueAs<T>(element, source, key, expected));
  return values;
}

}  // namespace

Config::Config() : impl_(std::make_shared<Impl>()) {
  impl_->root = std::make_shared<toml::table>();
  impl_->table = impl_->root.get();
  impl_->source = "(options)";
}

Config Config::Load(const std::filesystem::path& path) { return Parse(ReadFile(path), path.string()); }

Config Config::Parse(std::string_view text, std::string source) {
  Config config;
  try {
    *config.impl_->root = toml::parse(text, source);
  } catch (const toml::parse_error& e) {
    Throw<UsageError>("{}:{}:{}: {}", source, e.source().begin.line, e.source().begin.column, e.description());
  }
  config.impl_->source = std::move(source);
  return config;
}

std::vector<std::string> Config::Keys() const {
  std::vector<std::pair<toml::source_position, std::string>> keys;
  for (const auto& [key, node] : *impl_->table) keys.emplace_back(key.source().begin, std::string(key.str()));
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (auto& [position, name] : keys) names.push_back(std::move(name));
  return names;
}

bool Config::Has(std::string_view key) const { return static_cast<bool>(impl_->table->at_path(key)); }

Config Config::Table(std::string_view key) const {
  const auto node = impl_->table->at_path(key);
  Config sub;
  sub.impl_->source = impl_->source;
  if (!node) return sub;
  toml::table* table = node.as_table();
  if (table == nullptr) {
    Throw<UsageError>("{}: '{}' must be a table, found {}", Place(impl_->source, node.node()), key,
                      Describe(*node.node()));
  }
  sub.impl_->root = impl_->root;
  sub.impl_->table = table;
  return sub;
}

std::vector<Config> Config::Tables(std::string_view key) const {
  const auto node = impl_->table->at_path(key);
  if (!node) return {};
  toml::array* array = node.as_array();
  if (array == nullptr) {
    Throw<UsageError>("{}: '{}' must be a list of tables, found {}", Place(impl_->source, node.node()), key,
                      Describe(*node.node()));
  }
  std::vector<Config> tables;
  for (toml::node& element : *array) {
    if (!element.is_table()) {
      Throw<UsageError>("{}: each element of '{}' must be a table, found {}", Place(impl_->source, &element), key,
                        Describe(element));
    }
    Config sub;
    sub.impl_->source = impl_->source;
    sub.impl_->root = impl_->root;
    sub.impl_->table = element.as_table();
    tables.push_back(std::move(sub));
  }
  return tables;
}

void Config::Set(std::string_view dotted_key, std::string_view toml_value) {
  toml::table parsed;
  try {
    parsed = toml::parse(fmt::format("value = {}", toml_value));
  } catch (const toml::parse_error&) {
    parsed.insert_or_assign("value", std::string(toml_value));
  }
  toml::table* table = impl_->table;
  std::string_view rest = dotted_key;
  for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    const std::string_view head = rest.substr(0, dot);
    if (!table->contains(head)) table->insert(head, toml::table{});
    table = (*table)[head].as_table();
    if (table == nullptr) Throw<UsageError>("cannot set '{}': '{}' is a value, not a table", dotted_key, head);
    rest = rest.substr(dot + 1);
  }
  if (rest.empty()) Throw<UsageError>("cannot set '{}': a key is missing", dotted_key);
  toml::node* value = parsed.get("value");
  if (value == nullptr) Throw<UsageError>("cannot set '{}' to '{}': not a value", dotted_key, toml_value);
  value->visit([&](auto& node) { table->insert_or_assign(rest, node); });
}

void Config::SetFromFlag(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    Throw<UsageError>("--set takes KEY=VALUE, found '{}'", assignment);
  }
  Set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

std::optional<bool> Config::Bool(std::string_view key) const {
  return Get<bool>(*impl_->table, impl_->source, key, "true or false");
}
std::optional<int64_t> Config::Int(std::string_view key) const {
  return Get<int64_t>(*impl_->table, impl_->source, key, "a whole number");
}
std::optional<double> Config::Real(std::string_view key) const {
  return Get<double>(*impl_->table, impl_->source, key, "a number");
}
std::optional<std::string> Config::Text(std::string_view key) const {
  return Get<std::string>(*impl_->table, impl_->source, key, "text");
}
std::optional<std::vector<int64_t>> Config::Ints(std::string_view key) const {
  return GetList<int64_t>(*impl_->table, impl_->source, key, "whole numbers");
}
std::optional<std::vector<double>> Config::Reals(std::string_view key) const {
  return GetList<double>(*impl_->table, impl_->source, key, "numbers");
}
std::optional<std::vector<std::string>> Config::Texts(std::string_view key) const {
  return GetList<std::string>(*impl_->table, impl_->source, key, "texts");
}

std::string Config::RequiredText(std::string_view key) const {
  if (auto text = Text(key)) return *text;
  Throw<UsageError>("{}: the key '{}' is missing", Where(), key);
}

std::string Config::Where(std::string_view key) const {
  if (key.empty()) return Place(impl_->source, impl_->table);
  return Place(impl_->source, impl_->table->at_path(key).node());
}

std::string Config::ToToml() const {
  std::ostringstream out;
  out << *impl_->table << "\n";
  return out.str();
}

}  // namespace antiphon
