#include <span>

#include "antiphon.h"
#include "antiphon/version.h"
#include "api/c_handles.h"
#include "api/stream.h"
#include "base/error.h"
#include "base/options.h"

namespace antiphon::c {
namespace {

std::string Required(const char* text, const char* name) {
  if (text == nullptr) Throw<UsageError>("{} is NULL", name);
  return text;
}

template <class T>
std::span<const T> Samples(const T* samples, size_t count) {
  if (samples == nullptr && count > 0) Throw<UsageError>("samples is NULL, but num_samples is {}", count);
  return {samples, count};
}

const Recognizer& Good(const antiphon_recognizer* handle) {
  if (handle == nullptr) throw UsageError("the recognizer is NULL");
  if (!handle->recognizer) Throw<UsageError>("the recognizer could not be made: {}", handle->outcome.error);
  return *handle->recognizer;
}

const Aligner& Good(const antiphon_aligner* handle) {
  if (handle == nullptr) throw UsageError("the aligner is NULL");
  if (!handle->aligner) Throw<UsageError>("the aligner could not be made: {}", handle->outcome.error);
  return *handle->aligner;
}

// What a stream takes of its settings.
struct StreamOptions {
  bool partial = true;
  std::string profile, memory;
  LiveOptions live;

  template <class V>
  void Visit(V& v) {
    v("partial", partial, "events for what is understood so far");
    v("profile", profile, "file of a speaker's profile");
    v("memory", memory, "file of what was heard of the speaker before");
    live.Visit(v);
  }
};

StreamSettings StreamSettingsOf(const antiphon_settings* given, const Recognizer& recognizer) {
  if (given == nullptr) return {};
  if (!given->hotwords.empty() || !given->words.empty()) {
    throw UsageError("words that are preferred or allowed belong to the recognizer's settings, not to a stream's");
  }
  const auto options = ReadOptions<StreamOptions>(given->options);
  StreamSettings settings = SettingsOf(options.live);
  settings.partial = options.partial;
  if (!options.profile.empty()) settings.profile = recognizer.LoadProfile(options.profile);
  if (!options.memory.empty()) settings.memory = recognizer.LoadMemory(options.memory);
  return settings;
}

// Nothing of an earlier call stays in a result or in a stream's events, whatever this one comes to.
void Clear(antiphon_result& result) {
  result.text.clear();
  result.json.clear();
  result.textgrid.clear();
  result.words.clear();
}

template <class Work>
antiphon_status IntoResult(antiphon_result* result, Work&& work) noexcept {
  if (result == nullptr) return ANTIPHON_ERROR_USAGE;
  Clear(*result);
  const antiphon_status status = Guarded(result->outcome, work);
  if (status != ANTIPHON_OK) Clear(*result);
  return status;
}

void Take(Recognition&& recognition, antiphon_result& result) {
  result.json = ToJson(recognition);
  result.text = std::move(recognition.text);
  result.words = std::move(recognition.words);
}

void Take(const AlignedSpeech& speech, antiphon_result& result) {
  result.json = ToJson(speech);
  result.textgrid = ToTextGrid(speech);
  for (const AlignedWord& word : speech.words) {
    result.text += (result.text.empty() ? "" : " ") + word.word;
    result.words.push_back({word.word, word.start_s, word.end_s, -1.0});
  }
}

template <class Work>
antiphon_status OnStream(antiphon_stream* handle, Work&& work) noexcept {
  if (handle == nullptr) return ANTIPHON_ERROR_USAGE;
  handle->events.clear();
  handle->json.clear();
  if (!handle->stream) return handle->outcome.status;  // and the error says why it could not be made
  const antiphon_status status = Guarded(handle->outcome, [&] {
    handle->events = work(*handle->stream);
    for (const StreamEvent& event : handle->events) handle->json.push_back(ToJson(event));
  });
  if (status != ANTIPHON_OK) {
    handle->events.clear();
    handle->json.clear();
  }
  return status;
}

// Of any handle.
template <class Handle>
antiphon_status LastStatus(const Handle* handle) noexcept {
  return handle == nullptr ? ANTIPHON_ERROR_USAGE : handle->outcome.status;
}

template <class Handle>
const char* LastError(const Handle* handle, const char* if_null) noexcept {
  return handle == nullptr ? if_null : handle->outcome.error.c_str();
}

template <class Item>
const Item* At(const std::vector<Item>* items, size_t i) noexcept {
  return items == nullptr || i >= items->size() ? nullptr : &(*items)[i];
}

const RecognizedWord* Word(const antiphon_result* result, size_t i) noexcept {
  return At(result == nullptr ? nullptr : &result->words, i);
}

}  // namespace

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

antiphon_settings* antiphon_settings_new(void) {
  return MakeHandle<antiphon_settings>([](antiphon_settings&) {});
}

antiphon_status antiphon_settings_set(antiphon_settings* settings, const char* option, const char* value) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome,
                 [&] { settings->options.Set(Required(option, "option"), Required(value, "value")); });
}

antiphon_status antiphon_settings_prefer(antiphon_settings* settings, const char* phrase, double bonus) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome, [&] { settings->hotwords.push_back({Required(phrase, "phrase"), bonus}); });
}

antiphon_status antiphon_settings_allow(antiphon_settings* settings, const char* word) {
  if (settings == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(settings->outcome, [&] { settings->words.push_back(Required(word, "word")); });
}

const char* antiphon_settings_error(const antiphon_settings* settings) {
  return LastError(settings, "the settings are NULL");
}

void antiphon_settings_free(antiphon_settings** settings) { Free(settings); }

antiphon_result* antiphon_result_new(void) {
  return MakeHandle<antiphon_result>([](antiphon_result&) {});
}

antiphon_status antiphon_result_status(const antiphon_result* result) { return LastStatus(result); }
const char* antiphon_result_error(const antiphon_result* result) { return LastError(result, "the result is NULL"); }
const char* antiphon_result_text(const antiphon_result* result) {
  return result == nullptr ? "" : result->text.c_str();
}
const char* antiphon_result_json(const antiphon_result* result) {
  return result == nullptr ? "" : result->json.c_str();
}
const char* antiphon_result_textgrid(const antiphon_result* result) {
  return result == nullptr ? "" : result->textgrid.c_str();
}
size_t antiphon_result_num_words(const antiphon_result* result) { return result == nullptr ? 0 : result->words.size(); }
const char* antiphon_result_word(const antiphon_result* result, size_t i) {
  const RecognizedWord* word = Word(result, i);
  return word == nullptr ? "" : word->word.c_str();
}
double antiphon_result_word_start(const antiphon_result* result, size_t i) {
  const RecognizedWord* word = Word(result, i);
  return word == nullptr ? 0.0 : word->start_s;
}
double antiphon_result_word_end(const antiphon_result* result, size_t i) {
  const RecognizedWord* word = Word(result, i);
  return word == nullptr ? 0.0 : word->end_s;
}
double antiphon_result_word_confidence(const antiphon_result* result, size_t i) {
  const RecognizedWord* word = Word(result, i);
  return word == nullptr ? 0.0 : word->confidence;
}
void antiphon_result_cancel(antiphon_result* result) {
  if (result != nullptr) result->cancel.Cancel();
}
void antiphon_result_free(antiphon_result** result) { Free(result); }

antiphon_recognizer* antiphon_recognizer_new(const char* model, const char* graph, const antiphon_settings* settings) {
  return MakeHandle<antiphon_recognizer>([&](antiphon_recognizer& handle) {
    RecognizerSettings all;
    if (settings != nullptr) {
      all.options = settings->options.ToToml();
      all.hotwords = settings->hotwords;
      all.word_list = settings->words;
    }
    handle.recognizer.emplace(Required(model, "model"), graph == nullptr ? "" : graph, all);
  });
}

antiphon_status antiphon_recognizer_status(const antiphon_recognizer* recognizer) { return LastStatus(recognizer); }
const char* antiphon_recognizer_error(const antiphon_recognizer* recognizer) {
  return LastError(recognizer, "the recognizer is NULL");
}
int antiphon_recognizer_sample_rate(const antiphon_recognizer* recognizer) {
  return recognizer == nullptr || !recognizer->recognizer ? 0 : recognizer->recognizer->sample_rate_hz();
}
void antiphon_recognizer_free(antiphon_recognizer** recognizer) { Free(recognizer); }

antiphon_status antiphon_recognize(const antiphon_recognizer* recognizer, const float* samples, size_t num_samples,
                                   int sample_rate_hz, antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(recognizer).Recognize(Samples(samples, num_samples), sample_rate_hz, {.cancel = result->cancel}),
         *result);
  });
}

antiphon_status antiphon_recognize_file(const antiphon_recognizer* recognizer, const char* path, int channel,
                                        antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(recognizer).RecognizeFile(Required(path, "path"), {.channel = channel, .cancel = result->cancel}),
         *result);
  });
}

antiphon_stream* antiphon_stream_new(const antiphon_recognizer* recognizer, int sample_rate_hz,
                                     const antiphon_settings* settings) {
  return MakeHandle<antiphon_stream>([&](antiphon_stream& handle) {
    handle.recognizer = Good(recognizer);
    StreamSettings all = StreamSettingsOf(settings, *handle.recognizer);
    all.cancel = handle.cancel;
    handle.stream = handle.recognizer->NewStream(sample_rate_hz, all);
  });
}

antiphon_status antiphon_stream_status(const antiphon_stream* stream) { return LastStatus(stream); }
const char* antiphon_stream_error(const antiphon_stream* stream) { return LastError(stream, "the stream is NULL"); }

antiphon_status antiphon_stream_accept(antiphon_stream* stream, const float* samples, size_t num_samples) {
  return OnStream(stream, [&](Stream& s) { return s.Accept(Samples(samples, num_samples)); });
}

antiphon_status antiphon_stream_accept_int16(antiphon_stream* stream, const int16_t* samples, size_t num_samples) {
  return OnStream(stream, [&](Stream& s) { return s.Accept(Samples(samples, num_samples)); });
}

antiphon_status antiphon_stream_end(antiphon_stream* stream) {
  return OnStream(stream, [](Stream& s) { return s.End(); });
}

size_t antiphon_stream_num_events(const antiphon_stream* stream) {
  return stream == nullptr ? 0 : stream->events.size();
}
const char* antiphon_stream_event_text(const antiphon_stream* stream, size_t i) {
  const StreamEvent* event = At(stream == nullptr ? nullptr : &stream->events, i);
  return event == nullptr ? "" : event->text.c_str();
}
int antiphon_stream_event_final(const antiphon_stream* stream, size_t i) {
  const StreamEvent* event = At(stream == nullptr ? nullptr : &stream->events, i);
  return event != nullptr && event->final ? 1 : 0;
}
const char* antiphon_stream_event_json(const antiphon_stream* stream, size_t i) {
  const std::string* json = At(stream == nullptr ? nullptr : &stream->json, i);
  return json == nullptr ? "" : json->c_str();
}

antiphon_status antiphon_stream_save_memory(antiphon_stream* stream, const char* file) {
  if (stream == nullptr) return ANTIPHON_ERROR_USAGE;
  if (!stream->stream) return stream->outcome.status;
  return Guarded(stream->outcome,
                 [&] { stream->recognizer->SaveMemory(stream->stream->memory(), Required(file, "file")); });
}

void antiphon_stream_cancel(antiphon_stream* stream) {
  if (stream != nullptr) stream->cancel.Cancel();
}
void antiphon_stream_free(antiphon_stream** stream) { Free(stream); }

antiphon_aligner* antiphon_aligner_new(const char* model, const char* lexicon, const antiphon_settings* settings) {
  return MakeHandle<antiphon_aligner>([&](antiphon_aligner& handle) {
    AlignerSettings all;
    if (settings != nullptr) {
      if (!settings->hotwords.empty() || !settings->words.empty()) {
        throw UsageError("words that are preferred or allowed are for recognizers, not for aligners");
      }
      all.options = settings->options.ToToml();
    }
    handle.aligner.emplace(Required(model, "model"), lexicon == nullptr ? "" : lexicon, all);
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
                             {.cancel = result->cancel}),
         *result);
  });
}

antiphon_status antiphon_align_file(const antiphon_aligner* aligner, const char* path, int channel, const char* text,
                                    antiphon_result* result) {
  return IntoResult(result, [&] {
    Take(Good(aligner).AlignFile(Required(path, "path"), Required(text, "text"),
                                 {.channel = channel, .cancel = result->cancel}),
         *result);
  });
}

void antiphon_aligner_free(antiphon_aligner** aligner) { Free(aligner); }

}  // extern "C"
#pragma GCC visibility pop
}  // namespace antiphon::c
