// What stands behind the handles of the C interface, and what keeps exceptions on this side of it.
//
// Threads: those of antiphon.h. Errors: none that leave a guard.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "antiphon.h"
#include "antiphon/aligner.h"
#include "antiphon/cancel.h"
#include "antiphon/error.h"
#include "antiphon/recognizer.h"
#include "antiphon/stream.h"
#include "base/config.h"
#include "base/error.h"
#include "base/options.h"

namespace antiphon::c {

antiphon_status StatusOf(const std::exception& error) noexcept;

// How the last call went.
struct Outcome {
  antiphon_status status = ANTIPHON_OK;
  std::string error;

  void Fail(antiphon_status kind, const char* why) noexcept {
    status = kind;
    try {
      error = why;
    } catch (...) {  // no memory for the text
      error.clear();
    }
  }
};

/// Runs `work`, and notes how it went.
template <class Work>
antiphon_status Guarded(Outcome& outcome, Work&& work) noexcept {
  outcome.status = ANTIPHON_OK;
  outcome.error.clear();
  try {
    std::forward<Work>(work)();
  } catch (const std::exception& e) {
    outcome.Fail(StatusOf(e), e.what());
  } catch (...) {
    outcome.Fail(ANTIPHON_ERROR_INTERNAL, "an exception of an unknown kind");
  }
  return outcome.status;
}

/// A new handle, or null without memory; `work` is run on it.
template <class Handle, class Work>
Handle* MakeHandle(Work&& work) noexcept {
  Handle* handle = nullptr;
  try {
    handle = new Handle;
  } catch (...) {
    return nullptr;
  }
  Guarded(handle->outcome, [&] { std::forward<Work>(work)(*handle); });
  return handle;
}

template <class Handle>
void Free(Handle** handle) noexcept {
  if (handle == nullptr) return;
  delete *handle;
  *handle = nullptr;
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

// Members of an item that may not be there: "" and 0 then.
template <class Item, class Owner>
const char* TextOf(const Item* item, std::string Owner::*member) noexcept {
  return item == nullptr ? "" : (item->*member).c_str();
}

template <class Item, class Owner, class Value>
Value ValueOf(const Item* item, Value Owner::*member) noexcept {
  return item == nullptr ? Value{} : item->*member;
}

inline std::string Required(const char* text, const char* name) {
  if (text == nullptr) Throw<UsageError>("{} is NULL", name);
  return text;
}

inline std::string OrEmpty(const char* text) { return text == nullptr ? "" : text; }

template <class T>
std::span<const T> Samples(const T* samples, size_t count) {
  if (samples == nullptr && count > 0) Throw<UsageError>("samples is NULL, but num_samples is {}", count);
  return {samples, count};
}

/// What stands behind a speaker, and behind the results that have it.
struct KnownSpeaker {
  SpeakerProfile profile;
  SpeakerMemory memory;
};

/// Options by name, as they were set.
using SetOptions = std::vector<std::pair<std::string, std::string>>;

/// What was set, of options that are described so: text as it stands, anything else as TOML.
Config ConfigOf(const SetOptions& set, const std::vector<OptionDescription>& described);

/// Throws UsageError for handles that are null or not good.
const Recognizer& Good(const antiphon_recognizer* handle);

}  // namespace antiphon::c

// NOLINTBEGIN(readability-identifier-naming): names of the C interface.
struct antiphon_settings {
  antiphon::c::Outcome outcome;
  antiphon::c::SetOptions options;
  std::vector<antiphon::Hotword> hotwords;
  std::vector<std::string> words;
  std::vector<antiphon::AddedWord> added;
};

struct antiphon_recognizer {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Recognizer> recognizer;
  mutable std::once_flag asked;
  mutable std::vector<std::string> vocabulary;  // once it was asked for
};

struct antiphon_speaker {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Recognizer> recognizer;
  std::shared_ptr<antiphon::c::KnownSpeaker> speaker;
};

struct antiphon_result {
  antiphon::c::Outcome outcome;
  antiphon::Recognition recognition;  // of an alignment, its words
  antiphon::AlignedSpeech speech;     // only of an alignment
  std::string json, textgrid;
  // Of the calls that follow.
  antiphon::RecognizeSettings call;
  std::shared_ptr<antiphon::c::KnownSpeaker> speaker;
};

struct antiphon_stream {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Recognizer> recognizer;
  std::optional<antiphon::Stream> stream;
  std::vector<antiphon::StreamEvent> events;
  std::vector<std::string> json;  // of the events
  std::vector<std::string> audio_remarks;
  antiphon::CancelToken cancel;
};

struct antiphon_aligner {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Aligner> aligner;
};
// NOLINTEND(readability-identifier-naming)

namespace antiphon::c {

void Clear(antiphon_result& result);
void Take(Recognition&& recognition, antiphon_result& result);
void Take(AlignedSpeech&& speech, antiphon_result& result);

/// Nothing of an earlier call stays in a result, whatever `work` comes to.
template <class Work>
antiphon_status IntoResult(antiphon_result* result, Work&& work) noexcept {
  if (result == nullptr) return ANTIPHON_ERROR_USAGE;
  Clear(*result);
  const antiphon_status status = Guarded(result->outcome, work);
  if (status != ANTIPHON_OK) Clear(*result);
  return status;
}

}  // namespace antiphon::c
