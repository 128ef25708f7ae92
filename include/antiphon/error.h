// What went wrong, for programs that do different things about different errors.
//
//   try {
//     recognizer.RecognizeFile(path);
//   } catch (const std::runtime_error& e) {
//     if (antiphon::KindOf(e) == antiphon::ErrorKind::kInput) SkipFile(path, e.what());
//   }
//
// What the library throws is a std::runtime_error (std::bad_alloc where memory ran out). what() reads from what was
// asked for down to the cause, outermost line first: file, line or utterance, what was expected, what was found, what
// to do.
//
// Threads: pure functions. Errors: none.
#pragma once

#include <exception>

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

ErrorKind KindOf(const std::exception& error);

/// "usage", "input", "io", "peer", "divergence", "cancelled", "memory", "internal".
const char* NameOf(ErrorKind kind);

}  // namespace antiphon
