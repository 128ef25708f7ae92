#include "antiphon.h"
#include "api/c_handles.h"
#include "api/stream.h"
#include "base/options.h"

namespace antiphon::c {
namespace {

// What a stream takes of its settings.
struct StreamOptions {
  bool partial = true;
  int nbest = -1;
  std::string profile, memory;
  LiveOptions live;

  template <class V>
  void Visit(V& v) {
    v("partial", partial, "events for what is understood so far");
    v("nbest", nbest, Range{-1, 100000}, "hypotheses of a final result; -1: as the recognizer");
    v("profile", profile, "file of a speaker's profile");
    v("memory", memory, "file of what was heard of the speaker before");
    live.Visit(v);
  }
};

StreamSettings StreamSettingsOf(const antiphon_settings* given, const Recognizer& recognizer) {
  if (given == nullptr) return {};
  if (!given->added.empty()) throw UsageError("words are added by the recognizer's settings, not by a stream's");
  const auto options = ReadOptions<StreamOptions>(ConfigOf(given->options, DescribeOptions<StreamOptions>()));
  StreamSettings settings = SettingsOf(options.live);
  settings.partial = options.partial;
  settings.nbest = options.nbest;
  settings.hotwords = given->hotwords;
  settings.word_list = given->words;
  if (!options.profile.empty()) settings.profile = recognizer.LoadProfile(options.profile);
  if (!options.memory.empty()) settings.memory = recognizer.LoadMemory(options.memory);
  return settings;
}

// Nothing of an earlier call stays in the events, whatever this one comes to.
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

const StreamEvent* Event(const antiphon_stream* stream, size_t i) noexcept {
  return At(stream == nullptr ? nullptr : &stream->events, i);
}

}  // namespace

// What antiphon.h declares, libantiphon.so shows.
#pragma GCC visibility push(default)
extern "C" {

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

int antiphon_stream_ended(const antiphon_stream* stream) {
  return stream == nullptr || !stream->stream || stream->stream->ended() ? 1 : 0;
}

size_t antiphon_stream_num_events(const antiphon_stream* stream) {
  return stream == nullptr ? 0 : stream->events.size();
}
const char* antiphon_stream_event_text(const antiphon_stream* stream, size_t i) {
  return TextOf(Event(stream, i), &StreamEvent::text);
}
int antiphon_stream_event_final(const antiphon_stream* stream, size_t i) {
  const StreamEvent* event = Event(stream, i);
  return event != nullptr && event->final ? 1 : 0;
}
double antiphon_stream_event_start(const antiphon_stream* stream, size_t i) {
  return ValueOf(Event(stream, i), &StreamEvent::start_s);
}
double antiphon_stream_event_end(const antiphon_stream* stream, size_t i) {
  return ValueOf(Event(stream, i), &StreamEvent::end_s);
}
const char* antiphon_stream_event_json(const antiphon_stream* stream, size_t i) {
  const std::string* json = At(stream == nullptr ? nullptr : &stream->json, i);
  return json == nullptr ? "" : json->c_str();
}

antiphon_status antiphon_stream_event_result(const antiphon_stream* stream, size_t i, antiphon_result* result) {
  return IntoResult(result, [&] {
    if (stream == nullptr) throw UsageError("the stream is NULL");
    const StreamEvent* event = Event(stream, i);
    if (event == nullptr) Throw<UsageError>("event {} of {}: they count from 0", i, stream->events.size());
    Take(Recognition(*event), *result);
  });
}

size_t antiphon_stream_num_audio_remarks(antiphon_stream* stream) {
  if (stream == nullptr || !stream->stream) return 0;
  Outcome outcome;
  Guarded(outcome, [&] { stream->audio_remarks = stream->stream->AudioRemarks(); });
  return stream->audio_remarks.size();
}
const char* antiphon_stream_audio_remark(const antiphon_stream* stream, size_t i) {
  const std::string* remark = At(stream == nullptr ? nullptr : &stream->audio_remarks, i);
  return remark == nullptr ? "" : remark->c_str();
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

}  // extern "C"
#pragma GCC visibility pop
}  // namespace antiphon::c
