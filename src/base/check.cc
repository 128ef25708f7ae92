#include "base/check.h"

#include <exception>

namespace antiphon::internal {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  stream_ << "internal error at " << file << ":" << line << ": expected " << condition << " ";
}

CheckFailure::~CheckFailure() noexcept(false) {
  if (std::uncaught_exceptions() == 0) throw InternalError(stream_.str());
}

}  // namespace antiphon::internal
