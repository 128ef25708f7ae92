#include "base/error.h"

#include <filesystem>
#include <new>

namespace antiphon {

Error::Error(std::string message) : std::runtime_error(message), message_(std::move(message)), full_(message_) {}
Error::~Error() = default;

ErrorKind Error::kind() const noexcept { return ErrorKind::kInternal; }

const char* Error::what() const noexcept { return full_.c_str(); }

void Error::AddContext(std::string context) {
  full_ = context + ":\n  " + full_;
  contexts_.push_back(std::move(context));
}

ErrorKind KindOf(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return ours->kind();
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr) return ErrorKind::kIo;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return ErrorKind::kMemory;
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
