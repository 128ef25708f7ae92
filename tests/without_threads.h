// A system that gives no more threads: while it lives, each asks for a stack that no memory can hold.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace antiphon::testing {

class WithoutThreads {
 public:
  WithoutThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 46);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~WithoutThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  WithoutThreads(const WithoutThreads&) = delete;
  WithoutThreads& operator=(const WithoutThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace antiphon::testing
