#include <algorithm>
#include <string_view>

#include "antiphon.h"
#include "antiphon/log.h"
#include "antiphon/version.h"
#include "api/aligner_options.h"
#include "api/c_handles.h"
#include "api/recognizer_options.h"
#include "base/toml_text.h"

namespace antiphon::c {
namespace {

static_assert(static_cast<int>(LogLevel::kDebug) == ANTIPHON_LOG_DEBUG &&
              static_cast<int>(LogLevel::kInfo) == ANTIPHON_LOG_INFO &&
              static_cast<int>(LogLevel::kWarning) == ANTIPHON_LOG_WARNING);

const Aligner& Good(const antiphon_aligner* handle) {
  if (handle == nullptr) throw UsageError("the aligner is NULL");
  if (!handle->aligner) Throw<UsageError>("the aligner could not be made: {}", handle->outcome.error);
  return *handle->aligner;
}

// Empty without memory.
const std::vector<std::string>* VocabularyOf(const antiphon_recognizer* handle) noexcept {
  if (handle == nullptr || !handle->recognizer) return nullptr;
  try {
    std::call_once(handle->asked, [&] { handle->vocabulary = handle->recognizer->Vocabulary(); });
  } catch (...) {
    return nullptr;
  }
  return &handle->vocabulary;
}

RecognizeSettings CallOf(const antiphon_result& result, int channel) {
  RecognizeSettings call = result.call;
  call.channel = channel;
  return call;
}

}  // namespace

const Recognizer& Good(const antiphon_recognizer* handle) {
  if (handle == nullptr) throw UsageError("the recognizer is NULL");
  if (!handle->recognizer) Throw<UsageError>("the recognizer could not be made: {}", handle->outcome.error);
  return *handle->recognizer;
}

Config ConfigOf(const SetOptions& set, const std::vector<OptionDescription>& described) {
  Config config;
  for (const auto& [name, value] : set) {
    const bool text = std::any_of(described.begin(), described.end(), [&, &n = name](const OptionDescription& option) {
      return option.name == n && option.type == "text";
    });
    config.Set(name, text ? TomlString(value) : value);
  }
  return config;
}

antiphon_status StatusOf(const std::exception& error) noexcept {
  switch (KindOf(error)) {
    case ErrorKind::kUsage:
      return ANTIPHON_ERROR_USAGE;
    case ErrorKind::kInput:
      return ANTIPHON_ERROR_INPUT;
    case ErrorKind::kIo:
      return ANTIPHON_ERROR_IO;
    case ErrorKind::kCancelled:
      return ANTIPHON_ERROR_CANCELLED;
    case ErrorKind::kMemory:
      return ANTIPHON_ERROR_MEMORY;
    default:
      return ANTIPHON_ERROR_INTERNAL;
  }
}

// What antiphon.h declares, libantiphon.so shows.
#pragma GCC visibility push(default)
extern "C" {

const char* antiphon_version(void) { return LibraryVersionText(); }

antiphon_status antiphon_set_log_callback(antiphon_log_callback callback, void* user_data, antiphon_log_level least) {
  Outcome outcome;
  return Guarded(outcome, [&] {
    if (least < ANTIPHON_LOG_DEBUG || least > ANTIPHON_LOG_WARNING) throw UsageError("a level that there is not");
    LogCallback ours;
    if (callback != nullptr) {
      ours = [=](LogLevel level, std::string_view message) {
        callback(static_cast<antiphon_log_level>(level), std::string(message).c_str(), user_data);
      };
    }
    SetLogCallback(std::move(ours), static_cast<LogLevel>(least));
  });
}

antiphon_settings* antiphon_settings_new(void) {
  return MakeHandle<antiphon_settings>([](antiphon_settings&) {});
}

antiphon_status antiphon_settings_set(antiphon_settings* settings, const char* option, const char* value) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome,
                 [&] { settings->options.emplace_back(Required(option, "option"), Required(value, "value")); });
}

antiphon_status antiphon_settings_prefer(antiphon_settings* settings, const char* phrase, double bonus) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome, [&] { settings->hotwords.push_back({Required(phrase, "phrase"), bonus}); });
}

antiphon_status antiphon_settings_allow(antiphon_settings* settings, const char* word) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome, [&] { settings->words.push_back(Required(word, "word")); });
}

antiphon_status antiphon_settings_add_word(antiphon_settings* settings, const char* word, const char* phones,
                                           double weight) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome, [&] {
    settings->added.push_back({Required(word, "word"), OrEmpty(phones), weight});
  });
}

const char* antiphon_settings_error(const antiphon_settings* settings) {
  return LastError(settings, "the settings are NULL");
}

void antiphon_settings_free(antiphon_settings** settings) { Free(settings); }

antiphon_recognizer* antiphon_recognizer_new(const char* model, const char* graph, const antiphon_settings* settings) {
  return MakeHandle<antiphon_recognizer>([&](antiphon_recognizer& handle) {
    RecognizerSettings all;
    if (settings != nullptr) {
      all.options = ConfigOf(settings->options, DescribeOptions<RecognizerOptions>()).ToToml();
      all.hotwords = settings->hotwords;
      all.word_list = settings->words;
      all.add_words = settings->added;
    }
    handle.recognizer.emplace(Required(model, "model"), OrEmpty(graph), all);
  });
}

antiphon_status antiphon_recognizer_status(const antiphon_recognizer* recognizer) { return LastStatus(recognizer); }
const char* antiphon_recognizer_error(const antiphon_recognizer* recognizer) {
  return LastError(recognizer, "the recognizer is NULL");
}
int antiphon_recognizer_sample_rate(const antiphon_recognizer* recognizer) {
  return recognizer == nullptr || !recognizer->recognizer ? 0 : recognizer->recognizer->sample_rate_hz();
}
size_t antiphon_recognizer_num_words(const antiphon_recognizer* recognizer) {
  const std::vector<std::string>* words = VocabularyOf(recognizer);
  return words == nullptr ? 0 : words->size();
}
const char* antiphon_recognizer_word(const antiphon_recognizer* recognizer, size_t i) {
  const std::string* word = At(VocabularyOf(recognizer), i);
  return word == nullptr ? "" : word->c_str();
}
int antiphon_recognizer_uses_memory(const antiphon_recognizer* recognizer) {
  return recognizer != nullptr && recognizer->recognizer && recognizer->recognizer->UsesMemory() ? 1 : 0;
}
void antiphon_recognizer_free(antiphon_recognizer** recognizer) { Free(recognizer); }

antiphon_status antiphon_recognize(const antiphon_recognizer* recognizer, const float* samples, size_t num_samples,
                                   int sample_rate_hz, antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(recognizer).Recognize(Samples(samples, num_samples), sample_rate_hz, CallOf(*result, -1)), *result);
  });
}

antiphon_status antiphon_recognize_int16(const antiphon_recognizer* recognizer, const int16_t* samples,
                                         size_t num_samples, int sample_rate_hz, antiphon_result* result) {
  return IntoResult(result, [&] {
    constexpr float kFull = 32768;
    std::vector<float> floats;
    for (const int16_t sample : Samples(samples, num_samples)) floats.push_back(static_cast<float>(sample) / kFull);
    Take(Good(recognizer).Recognize(floats, sample_rate_hz, CallOf(*result, -1)), *result);
  });
}

antiphon_status antiphon_recognize_file(const antiphon_recognizer* recognizer, const char* path, int channel,
                                        antiphon_result* result) {
  return IntoResult(
      result, [&] { Take(Good(recognizer).RecognizeFile(Required(path, "path"), CallOf(*result, channel)), *result); });
}

antiphon_status antiphon_recognize_bytes(const antiphon_recognizer* recognizer, const void* bytes, size_t num_bytes,
                                         int channel, const char* name, antiphon_result* result) {
  return IntoResult(result, [&] {
    if (bytes == nullptr) throw UsageError("bytes is NULL");
    const std::span file(static_cast<const std::byte*>(bytes), num_bytes);
    Take(Good(recognizer).RecognizeBytes(file, CallOf(*result, channel), Required(name, "name")), *result);
  });
}

antiphon_speaker* antiphon_speaker_new(const antiphon_recognizer* recognizer, const char* profile, const char* memory) {
  return MakeHandle<antiphon_speaker>([&](antiphon_speaker& handle) {
    handle.recognizer = Good(recognizer);
    auto speaker = std::make_shared<KnownSpeaker>();
    if (!OrEmpty(profile).empty()) speaker->profile = handle.recognizer->LoadProfile(profile);
    if (!OrEmpty(memory).empty()) speaker->memory = handle.recognizer->LoadMemory(memory);
    handle.speaker = std::move(speaker);
  });
}

antiphon_status antiphon_speaker_status(const antiphon_speaker* speaker) { return LastStatus(speaker); }
const char* antiphon_speaker_error(const antiphon_speaker* speaker) {
  return LastError(speaker, "the speaker is NULL");
}

antiphon_status antiphon_speaker_save_memory(antiphon_speaker* speaker, const char* file) {
  if (speaker == nullptr) return ANTIPHON_ERROR_USAGE;
  if (speaker->speaker == nullptr) return speaker->outcome.status;
  return Guarded(speaker->outcome,
                 [&] { speaker->recognizer->SaveMemory(speaker->speaker->memory, Required(file, "file")); });
}

void antiphon_speaker_free(antiphon_speaker** speaker) { Free(speaker); }

antiphon_aligner* antiphon_aligner_new(const char* model, const char* lexicon, const antiphon_settings* settings) {
  return MakeHandle<antiphon_aligner>([&](antiphon_aligner& handle) {
    AlignerSettings all;
    if (settings != nullptr) {
      if (!settings->hotwords.empty() || !settings->words.empty() || !settings->added.empty()) {
        throw UsageError("words that are preferred, allowed or added are for recognizers, not for aligners");
      }
      all.options = ConfigOf(settings->options, DescribeOptions<AlignerOptions>()).ToToml();
    }
    handle.aligner.emplace(Required(model, "model"), OrEmpty(lexicon), all);
  });
}

antiphon_status antiphon_aligner_status(const antiphon_aligner* aligner) { return LastStatus(aligner); }
const char* antiphon_aligner_error(const antiphon_aligner* aligner) {
  return LastError(aligner, "the aligner is NULL");
}

antiphon_status antiphon_align(const antiphon_aligner* aligner, const float* samples, size_t num_samples,
                               int sample_rate_hz, const char* text, antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(aligner).Align(Samples(samples, num_samples), sample_rate_hz, Required(text, "text"),
                             {.cancel = result->call.cancel}),
         *result);
  });
}

antiphon_status antiphon_align_file(const antiphon_aligner* aligner, const char* path, int channel, const char* text,
                                    antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(aligner).AlignFile(Required(path, "path"), Required(text, "text"),
                                 {.channel = channel, .cancel = result->call.cancel}),
         *result);
  });
}

void antiphon_aligner_free(antiphon_aligner** aligner) { Free(aligner); }

}  // extern "C"
#pragma GCC visibility pop
}  // namespace antiphon::c
