#include "bench_network.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace antiphon::app {
namespace {

int ParseCount(std::string_view text, const std::string& whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > 1 << 20) {
    Throw<UsageError>("--layers takes sizes like 462,5x2048,10217; '{}' in '{}' is none", text, whole);
  }
  return value;
}

}  // namespace

std::vector<int> ParseLayers(const std::string& text) {
  std::vector<int> dims;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string_view piece = std::string_view(text).substr(start, comma - start);
    const size_t times = piece.find('x');
    const int count = times == std::string_view::npos ? 1 : ParseCount(piece.substr(0, times), text);
    const int dim = ParseCount(times == std::string_view::npos ? piece : piece.substr(times + 1), text);
    if (count > 1000) Throw<UsageError>("--layers: {} layers are too many", count);
    dims.insert(dims.end(), static_cast<size_t>(count), dim);
    start = comma + 1;
  }
  if (dims.size() < 2) Throw<UsageError>("--layers needs at least inputs and outputs, found '{}'", text);
  return dims;
}

Config NetworkOf(const std::vector<int>& dims, const std::string& activation) {
  std::string toml;
  for (size_t i = 1; i < dims.size(); ++i) {
    toml += fmt::format("[[layer]]\ntype = \"affine\"\ndim = {}\n", dims[i]);
    if (i + 1 < dims.size()) toml += fmt::format("[[layer]]\ntype = \"{}\"\n", activation);
  }
  return Config::Parse(toml, "--layers");
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace antiphon::app
