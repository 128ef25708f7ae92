// What went wrong, for programs that do different things about different errors.
//
//   try {
//     recognizer.RecognizeFile(path);
//   } catch (const antiphon::Error& e) {
//     if (e.kind() == antiphon::ErrorKind::kInput) SkipFile(path, e.what());
//   }
//
// What the library throws is an Error, and so a std::runtime_error; std::bad_alloc where memory ran out; rarely what
// the standard library throws, such as std::filesystem::filesystem_error. KindOf knows all of them. what() reads from
// what was asked for down to the cause, outermost line first: file, line or utterance, what was expected, what was
// found, what to do.
//
// An object that was moved from is safe: one that is shared by its copies stays as it was, one that alone has what it
// holds throws kUsage from whatever is asked of it, saying so, and may be assigned to and destroyed.
//
// Ownership: values. Threads: values and pure functions. Errors: none but for memory.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

enum class ErrorKind {
  kUsage,       // a call or a setting that cannot be: another one will do
  kInput,       // a file, samples, a table: what was given is damaged, or does not fit together
  kIo,          // the operating system refused: no such file, disk full, no permission
  kPeer,        // another process or device failed
  kDivergence,  // a training that cannot go on
  kCancelled,   // somebody asked to stop (antiphon/cancel.h)
  kMemory,      // out of memory
  kInternal,    // a bug in Antiphon; or an exception of somebody else
};

// The attribute: whoever catches it and whoever throws it, each in a library of its own, mean one class.
class ANTIPHON_API Error : public std::runtime_error {
 public:
  explicit Error(std::string message);
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;

  virtual ErrorKind kind() const noexcept;
  /// The whole chain, outermost context first, joined by ": " and line breaks.
  const char* what() const noexcept override;
  /// The cause alone.
  const std::string& message() const { return message_; }
  /// What was being done when it happened, innermost first.
  const std::vector<std::string>& contexts() const { return contexts_; }

  /// Puts `context` in front of the chain.
  void AddContext(std::string context);

 private:
  std::string message_;
  std::vector<std::string> contexts_;
  std::string full_;
};

/// Of any exception.
ANTIPHON_API ErrorKind KindOf(const std::exception& error);

/// "usage", "input", "io", "peer", "divergence", "cancelled", "memory", "internal".
ANTIPHON_API const char* NameOf(ErrorKind kind);

}  // namespace antiphon
