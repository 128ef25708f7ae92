// Whether a sanitizer watches this program. It keeps what is freed, has memory of its own, and the one of undefined
// behaviour opens a pipe to look at an object. clang tells of its sanitizers otherwise than gcc.
#pragma once

namespace antiphon::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif !defined(__has_feature)
constexpr bool kSanitized = false;
#elif __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

}  // namespace antiphon::testing
