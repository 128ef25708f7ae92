#include "antiphon/error.h"

#include <filesystem>
#include <new>

#include "base/error.h"
#include "infer/stream_pool.h"

namespace antiphon {

namespace {

template <class E>
bool Is(const std::exception& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

}  // namespace

ErrorKind KindOf(const std::exception& error) {
  if (Is<UsageError>(error)) return ErrorKind::kUsage;
  if (Is<infer::OverloadError>(error)) return ErrorKind::kUsage;
  if (Is<InputError>(error)) return ErrorKind::kInput;
  if (Is<IoError>(error)) return ErrorKind::kIo;
  if (Is<std::filesystem::filesystem_error>(error)) return ErrorKind::kIo;
  if (Is<PeerError>(error)) return ErrorKind::kPeer;
  if (Is<DivergenceError>(error)) return ErrorKind::kDivergence;
  if (Is<Cancelled>(error)) return ErrorKind::kCancelled;
  if (Is<std::bad_alloc>(error)) return ErrorKind::kMemory;
  return ErrorKind::kInternal;
}

const char* NameOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kPeer:
      return "peer";
    case ErrorKind::kDivergence:
      return "divergence";
    case ErrorKind::kCancelled:
      return "cancelled";
    case ErrorKind::kMemory:
      return "memory";
    case ErrorKind::kInternal:
      break;
  }
  return "internal";
}

}  // namespace antiphon
