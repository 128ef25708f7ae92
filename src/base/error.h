// Errors that a person can act on.
//
// What the outside world does wrong (files, options, peers, devices) throws Error (antiphon/error.h) or one of its
// kinds. Every layer that knows more adds a line of context, so that the person reads one chain from what they asked
// for down to the cause. A broken contract of our own is an InternalError, thrown by CHECK (base/check.h). The library
// never exits or prints.
//
//   WithContext([&] { return ReadMatrix(stream); }, [&] { return fmt::format("reading {} of '{}'", key, path); });
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "antiphon/error.h"

namespace antiphon {

/// Bad input: a file, a table, an utterance, a configuration. The message says what was expected and what to do.
class InputError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kInput; }
};
/// Shapes that do not fit together; the message names both.
class ShapeError : public InputError {
  using InputError::InputError;
};
/// The command line or an option is wrong (exit status 2).
class UsageError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kUsage; }
};
/// The operating system refused: disk full, read-only folder, no such file.
class IoError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kIo; }
};
/// Another rank or device failed or did not answer in time.
class PeerError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kPeer; }
};
/// Training cannot go on: non-finite loss, no good model to fall back to.
class DivergenceError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kDivergence; }
};
/// A signal or a caller asked to stop; work was saved.
class Cancelled : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kCancelled; }
};
/// A contract of our own is broken: a bug in Antiphon.
class InternalError : public Error {
 public:
  using Error::Error;
  ErrorKind kind() const noexcept override { return ErrorKind::kInternal; }
};

/// Throws E with a formatted message.
template <class E, class... Args>
[[noreturn]] void Throw(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Runs `f`; an Error that leaves it gets `context()` in front.
template <class F, class C>
decltype(auto) WithContext(F&& f, C&& context) {
  try {
    return std::forward<F>(f)();
  } catch (Error& e) {
    e.AddContext(context());
    throw;
  }
}

}  // namespace antiphon
