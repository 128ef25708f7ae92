// CHECK(cond) << context; CHECK_EQ(a, b) << context. Alive in release builds; both values are in the message.
//
// A failed check throws InternalError: it is a bug of ours, never the answer to bad input. DCHECK vanishes with NDEBUG.
#pragma once

#include <sstream>

#include "base/error.h"

namespace antiphon::internal {

// Collects the message and throws when the full expression ends.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  CheckFailure(const CheckFailure&) = delete;
  ~CheckFailure() noexcept(false);
  template <class T>
  CheckFailure& operator<<(const T& value) {
    stream_ << value;
    return *this;
  }

 private:
  std::ostringstream stream_;
};

struct Voidify {
  void operator&(CheckFailure&) {}
  void operator&(CheckFailure&&) {}
};

}  // namespace antiphon::internal

#define CHECK(cond) \
  (cond) ? (void)0 : ::antiphon::internal::Voidify() & ::antiphon::internal::CheckFailure(__FILE__, __LINE__, #cond)
#define ANTIPHON_CHECK_OP(a, op, b)                                                                                  \
  ((a)op(b))                                                                                                         \
      ? (void)0                                                                                                      \
      : ::antiphon::internal::Voidify() & (::antiphon::internal::CheckFailure(__FILE__, __LINE__, #a " " #op " " #b) \
                                           << "(" << (a) << " against " << (b) << ") ")
#define CHECK_EQ(a, b) ANTIPHON_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) ANTIPHON_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) ANTIPHON_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) ANTIPHON_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) ANTIPHON_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) ANTIPHON_CHECK_OP(a, >=, b)

#ifdef NDEBUG
#define DCHECK(cond) CHECK(true || (cond))
#else
#define DCHECK(cond) CHECK(cond)
#endif
