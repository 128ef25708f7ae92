// What stands behind the handles of the C interface, and what keeps exceptions on this side of it.
//
// Threads: those of antiphon.h. Errors: none that leave a guard.
#pragma once

#include <exception>
#include <optional>
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

}  // namespace antiphon::c

// NOLINTBEGIN(readability-identifier-naming): names of the C interface.
struct antiphon_settings {
  antiphon::c::Outcome outcome;
  antiphon::Config options;
  std::vector<antiphon::Hotword> hotwords;
  std::vector<std::string> words;
};

struct antiphon_recognizer {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Recognizer> recognizer;
};

struct antiphon_result {
  antiphon::c::Outcome outcome;
  std::string text, json, textgrid;
  std::vector<antiphon::RecognizedWord> words;
  antiphon::CancelToken cancel;
};

struct antiphon_stream {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Recognizer> recognizer;
  std::optional<antiphon::Stream> stream;
  std::vector<antiphon::StreamEvent> events;
  std::vector<std::string> json;  // of the events
  antiphon::CancelToken cancel;
};

struct antiphon_aligner {
  antiphon::c::Outcome outcome;
  std::optional<antiphon::Aligner> aligner;
};
// NOLINTEND(readability-identifier-naming)
