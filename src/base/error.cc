#include "base/error.h"

namespace antiphon {

Error::Error(std::string message) : std::runtime_error(message), message_(std::move(message)), full_(message_) {}
Error::~Error() = default;

ErrorKind Error::kind() const noexcept { return ErrorKind::kInternal; }

const char* Error::what() const noexcept { return full_.c_str(); }

void Error::AddContext(std::string context) {
  full_ = context + ":\n  " + full_;
  contexts_.push_back(std::move(context));
}

}  // namespace antiphon
