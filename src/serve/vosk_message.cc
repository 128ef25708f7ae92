#include "serve/vosk_message.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace antiphon::serve {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxPhrases = 10000;
constexpr double kMaxAlternatives = 100;

// Clients write numbers as numbers, as texts and as truth values.
double NumberOf(const Json& value, const char* key) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    size_t used = 0;
    try {
      const double number = std::stod(text, &used);
      if (used == text.size()) return number;
    } catch (const std::logic_error&) {
      // Said below.
    }
  }
  Throw<UsageError>("config: '{}' is no number", key);
}

int WholeNumber(const Json& value, const char* key, double least, double most) {
  const double number = NumberOf(value, key);
  if (!(number >= least && number <= most)) Throw<UsageError>("config: '{}' is not in {} … {}", key, least, most);
  return static_cast<int>(std::lround(number));
}

std::string TextOf(const Json& value, const char* key) {
  if (!value.is_string()) Throw<UsageError>("config: '{}' is no text", key);
  return value.get<std::string>();
}

const Json& ListOf(const Json& value, const char* key) {
  if (!value.is_array()) Throw<UsageError>("config: '{}' is no list", key);
  if (value.size() > kMaxPhrases) Throw<UsageError>("config: '{}' has more than {} entries", key, kMaxPhrases);
  return value;
}

std::vector<std::string> Phrases(const Json& value) {
  std::vector<std::string> phrases;
  for (const Json& phrase : ListOf(value, "phrase_list")) phrases.push_back(TextOf(phrase, "phrase_list"));
  return phrases;
}

std::vector<Hotword> Hotwords(const Json& value) {
  std::vector<Hotword> hotwords;
  for (const Json& given : ListOf(value, "hotwords")) {
    Hotword hotword;
    const Json& phrase = given.is_object() && given.contains("phrase") ? given["phrase"] : given;
    hotword.phrase = TextOf(phrase, "hotwords");
    if (given.is_object() && given.contains("bonus")) hotword.bonus = NumberOf(given["bonus"], "bonus");
    hotwords.push_back(std::move(hotword));
  }
  return hotwords;
}

bool Formatted(const std::string& format) {
  if (format != "listen" && format != "vosk") throw UsageError("config: 'format' is neither \"vosk\" nor \"listen\"");
  return format == "listen";
}

// Keys that are not known are left alone, as other servers leave them.
void Read(const Json& given, VoskConfig& config) {
  constexpr double kLowestHz = 1000, kHighestHz = 384000;
  for (const auto& [key, value] : given.items()) {
    if (value.is_null()) continue;
    if (key == "sample_rate") config.sample_rate_hz = WholeNumber(value, "sample_rate", kLowestHz, kHighestHz);
    if (key == "words") config.words = NumberOf(value, "words") != 0;
    if (key == "partial") config.partial = NumberOf(value, "partial") != 0;
    if (key == "partial_words") config.partial_words = NumberOf(value, "partial_words") != 0;
    if (key == "max_alternatives") {
      config.max_alternatives = WholeNumber(value, "max_alternatives", 0, kMaxAlternatives);
    }
    if (key == "phrase_list") config.phrase_list = Phrases(value);
    if (key == "hotwords") config.hotwords = Hotwords(value);
    if (key == "model") config.model = TextOf(value, "model");
    if (key == "profile") config.profile = TextOf(value, "profile");
    if (key == "format") config.as_listen = Formatted(TextOf(value, "format"));
  }
}

bool IsSet(const Json& message, const char* key) { return message.contains(key) && NumberOf(message[key], key) != 0; }

}  // namespace

VoskSays ReadVoskMessage(std::string_view text, VoskConfig& config) {
  const Json message = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!message.is_object()) throw UsageError("a text message is no JSON object");
  if (message.contains("config")) {
    if (!message["config"].is_object()) throw UsageError("'config' is no JSON object");
    VoskConfig changed = config;
    Read(message["config"], changed);
    config = std::move(changed);
    return VoskSays::kConfig;
  }
  if (IsSet(message, "eof")) return VoskSays::kEnd;
  if (IsSet(message, "reset")) return VoskSays::kReset;
  throw UsageError("a text message says neither \"config\" nor \"eof\" nor \"reset\"");
}

}  // namespace antiphon::serve
