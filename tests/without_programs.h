// As if no program were installed: an empty PATH for as long as the object lives.
//
// Threads: none may read the environment meanwhile.
#pragma once

#include <cstdlib>
#include <string>

namespace antiphon::testing {

class WithoutPrograms {
 public:
  WithoutPrograms() : before_(std::getenv("PATH")) { ::setenv("PATH", "/nonexistent", 1); }
  ~WithoutPrograms() { ::setenv("PATH", before_.c_str(), 1); }
  WithoutPrograms(const WithoutPrograms&) = delete;
  WithoutPrograms& operator=(const WithoutPrograms&) = delete;

 private:
  std::string before_;
};

}  // namespace antiphon::testing
