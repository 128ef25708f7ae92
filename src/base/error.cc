#include "base/error.h"

namespace antiphon {

Error::Error(std::string message) : std::runtime_error(message), message_(std::move(message)), full_(message_) {}

void Error::AddContext(std::string context) {
  full_ = context + ":\n  " + full_;
  contexts_.push_back(std::move(context));
}

}  // namespace antiphon
