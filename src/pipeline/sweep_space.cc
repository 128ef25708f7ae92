#include "pipeline/sweep_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"
#include "base/trim.h"

namespace antiphon::pipeline {
namespace {

constexpr size_t kMostRuns = 10000;
constexpr int kMostDraws = 200;  // for a run that is not there yet

constexpr char kExpected[] =
    "a range such as \"log:0.01..1\", \"0..0.9\", \"int:1..8\" or \"log:0.01..1/5\" (5 points), a list of values, or "
    "\"0.1 * OTHER-KEY\"";

// All of the text as a number.
std::optional<double> NumberIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string NumberText(double value, const SweptOption& option) {
  if (option.whole) return fmt::format("{}", std::llround(value));
  return option.kind == SweptOption::Kind::kLog ? fmt::format("{:.4g}", value) : fmt::format("{:.6g}", value);
}

// The number that is `share` of the way from low to high.
std::string At(const SweptOption& option, double share) {
  const bool log = option.kind == SweptOption::Kind::kLog;
  const double value =
      log ? option.low * std::pow(option.high / option.low, share) : option.low + share * (option.high - option.low);
  return NumberText(value, option);
}

[[noreturn]] void Refuse(const Config& config, const std::string& key, const std::string& found) {
  Throw<UsageError>("{}: vary.{} = {}: expected {}", config.Where(key), key, found, kExpected);
}

// Cuts `prefix` off.
bool Take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void TakePoints(SweptOption& option, int points) {
  for (int i = 0; i < points; ++i) {
    std::string value = At(option, points == 1 ? 0.0 : static_cast<double>(i) / (points - 1));
    if (std::find(option.choices.begin(), option.choices.end(), value) == option.choices.end())
      option.choices.push_back(std::move(value));
  }
}

bool ReadRange(std::string_view text, SweptOption& option) {
  option.kind = SweptOption::Kind::kLinear;
  if (Take(text, "log-int:")) {
    option.kind = SweptOption::Kind::kLog;
    option.whole = true;
  } else if (Take(text, "log:")) {
    option.kind = SweptOption::Kind::kLog;
  } else if (Take(text, "int:")) {
    option.whole = true;
  }
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return false;
  const size_t slash = text.find('/', dots);
  const auto low = NumberIn(text.substr(0, dots));
  const auto high = NumberIn(text.substr(dots + 2, slash == std::string_view::npos ? slash : slash - dots - 2));
  if (!low || !high || *low >= *high || (option.kind == SweptOption::Kind::kLog && *low <= 0)) return false;
  option.low = *low, option.high = *high;
  if (option.whole && (std::trunc(*low) != *low || std::trunc(*high) != *high)) return false;
  if (slash == std::string_view::npos) return true;
  const auto points = NumberIn(text.substr(slash + 1));
  if (!points || *points < 1 || *points > 1000 || std::trunc(*points) != *points) return false;
  TakePoints(option, static_cast<int>(*points));
  return true;
}

bool ReadFollower(std::string_view text, SweptOption& option) {
  const size_t star = text.find('*');
  if (star == std::string_view::npos) return false;
  const auto factor = NumberIn(Trim(text.substr(0, star)));
  option.leader = Trim(text.substr(star + 1));
  if (!factor || option.leader.empty()) return false;
  option.kind = SweptOption::Kind::kFollows;
  option.factor = *factor;
  return true;
}

// Values of a list, as behind --set.
std::optional<std::vector<std::string>> ChoicesIn(const Config& config, const std::string& key) {
  std::vector<std::string> choices;
  try {
    if (const auto texts = config.Texts(key)) return texts;
  } catch (const UsageError&) {  // of numbers, then
  }
  try {
    for (const int64_t value : config.Ints(key).value_or(std::vector<int64_t>()))
      choices.push_back(std::to_string(value));
    return choices;
  } catch (const UsageError&) {
  }
  try {
    for (const double value : config.Reals(key).value_or(std::vector<double>()))
      choices.push_back(fmt::format("{}", value));
    return choices;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

SweptOption ReadOption(const Config& config, const std::string& key, const std::string& full_key) {
  SweptOption option{.key = full_key, .choices = {}, .leader = {}};
  std::optional<std::string> text;
  try {
    text = config.Text(key);
  } catch (const UsageError&) {  // no text: a list
    auto choices = ChoicesIn(config, key);
    if (!choices || choices->empty()) Refuse(config, key, config.AnyAsText(key).value_or("[]"));
    option.choices = std::move(*choices);
    return option;
  }
  if (!ReadFollower(*text, option) && !ReadRange(*text, option)) Refuse(config, key, "\"" + *text + "\"");
  return option;
}

void Walk(const Config& table, const std::string& prefix, std::vector<SweptOption>& options) {
  for (const std::string& key : table.Keys()) {
    const std::string full = prefix.empty() ? key : prefix + "." + key;
    if (table.IsTable(key)) {
      Walk(table.Table(key), full, options);
    } else {
      options.push_back(ReadOption(table, key, full));
    }
  }
}

void CheckLeaders(const std::vector<SweptOption>& options) {
  std::vector<std::string> numbers;
  for (const SweptOption& option : options) {
    if (option.kind != SweptOption::Kind::kFollows) numbers.push_back(option.key);
  }
  if (numbers.empty())
    throw UsageError("a sweep needs something to vary: --set vary.schedule.learning-rate=log:0.01..1");
  for (const SweptOption& option : options) {
    if (option.kind != SweptOption::Kind::kFollows) continue;
    if (std::find(numbers.begin(), numbers.end(), option.leader) == numbers.end()) {
      Throw<UsageError>("vary.{} follows a key that is not varied itself: {}", option.key,
                        UnknownNameMessage("key", option.leader, numbers));
    }
  }
}

// Those that follow come last, when what they follow is known.
void AddFollowers(const std::vector<SweptOption>& options, SweptValues& values) {
  SweptValues all;
  for (const SweptOption& option : options) {
    const auto find = [&](const std::string& key) {
      return std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == key; });
    };
    if (option.kind != SweptOption::Kind::kFollows) {
      all.push_back(*find(option.key));
      continue;
    }
    const std::string& leader = find(option.leader)->second;
    const auto number = NumberIn(leader);
    if (!number) Throw<UsageError>("vary.{}: {} = {} is no number", option.key, option.leader, leader);
    all.emplace_back(option.key, fmt::format("{:.6g}", option.factor * *number));
  }
  values = std::move(all);
}

// The same for a key on every machine (FNV-1a).
uint64_t HashOf(std::string_view key) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  return hash;
}

std::string Draw(const SweptOption& option, Rng& rng) {
  if (!option.choices.empty()) return option.choices[rng.Below(option.choices.size())];
  // Each whole number has the same chance, the ends too.
  if (option.whole && option.kind == SweptOption::Kind::kLinear) {
    const auto count = static_cast<uint64_t>(option.high - option.low) + 1;
    return NumberText(option.low + static_cast<double>(rng.Below(count)), option);
  }
  return At(option, rng.Uniform());
}

}  // namespace

std::vector<SweptOption> ReadSweptOptions(const Config& vary) {
  std::vector<SweptOption> options;
  Walk(vary, "", options);
  CheckLeaders(options);
  return options;
}

std::vector<SweptValues> GridOf(const std::vector<SweptOption>& options) {
  std::vector<SweptValues> runs = {{}};
  for (const SweptOption& option : options) {
    if (option.kind == SweptOption::Kind::kFollows) continue;
    if (option.choices.empty()) {
      Throw<UsageError>("vary.{}: a grid needs to know how many points of the range to take: \"…{:g}..{:g}/5\"",
                        option.key, option.low, option.high);
    }
    if (runs.size() * option.choices.size() > kMostRuns) {
      Throw<UsageError>("the grid has more than {} points: take fewer values of each option, or search = \"random\"",
                        kMostRuns);
    }
    std::vector<SweptValues> longer;
    for (const SweptValues& run : runs) {
      for (const std::string& choice : option.choices) {
        longer.push_back(run);
        longer.back().emplace_back(option.key, choice);
      }
    }
    runs = std::move(longer);
  }
  for (SweptValues& run : runs) AddFollowers(options, run);
  return runs;
}

std::vector<SweptValues> RandomRuns(const std::vector<SweptOption>& options, int runs, uint64_t seed) {
  std::vector<SweptValues> drawn;
  for (int k = 0; k < runs; ++k) {
    std::vector<Rng> streams;
    for (const SweptOption& option : options) streams.emplace_back(MixSeed(seed, HashOf(option.key)), k);
    for (int attempt = 0; attempt < kMostDraws; ++attempt) {
      SweptValues values;
      for (size_t i = 0; i < options.size(); ++i) {
        if (options[i].kind == SweptOption::Kind::kFollows) continue;
        values.emplace_back(options[i].key, Draw(options[i], streams[i]));
      }
      AddFollowers(options, values);
      if (std::find(drawn.begin(), drawn.end(), values) != drawn.end()) continue;
      drawn.push_back(std::move(values));
      break;
    }
  }
  return drawn;
}

}  // namespace antiphon::pipeline
