// Errors that a person can act on.
//
// What the outside world does wrong (files, options, peers, devices) throws Error or one of its kinds. Every layer that
// knows more adds a line of context, so that the person reads one chain from what they asked for down to the cause.
// A broken contract of our own is an InternalError, thrown by CHECK (base/check.h). The library never exits or prints.
//
//   WithContext([&] { return ReadMatrix(stream); }, [&] { return fmt::format("reading {} of '{}'", key, path); });
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace antiphon {

/// Base of all errors; what() is the whole chain, outermost context first, joined by ": " and line breaks.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string message);

  /// Puts `context` in front of the chain.
  void AddContext(std::string context);

  const char* what() const noexcept override { return full_.c_str(); }
  const std::string& message() const { return message_; }
  /// Innermost first.
  const std::vector<std::string>& contexts() const { return contexts_; }

 private:
  std::string message_;
  std::vector<std::string> contexts_;
  std::string full_;
};

/// Bad input: a file, a table, an utterance, a configuration. The message says what was expected and what to do.
class InputError : public Error {
  using Error::Error;
};
/// Shapes that do not fit together; the message names both.
class ShapeError : public InputError {
  using InputError::InputError;
};
/// The command line or an option is wrong (exit status 2).
class UsageError : public Error {
  using Error::Error;
};
/// The operating system refused: disk full, read-only folder, no such file.
class IoError : public Error {
  using Error::Error;
};
/// Another rank or device failed or did not answer in time.
class PeerError : public Error {
  using Error::Error;
};
/// Training cannot go on: non-finite loss, no good model to fall back to.
class DivergenceError : public Error {
  using Error::Error;
};
/// A signal or a caller asked to stop; work was saved.
class Cancelled : public Error {
  using Error::Error;
};
/// A contract of our own is broken: a bug in Antiphon.
class InternalError : public Error {
  using Error::Error;
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
