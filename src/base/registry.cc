#include "base/registry.h"

namespace antiphon {
namespace {

// Inside a function: registrations run before main, in an order across files that nobody knows.
std::vector<Registration>& Registrations() {
  static std::vector<Registration> registrations;
  return registrations;
}

}  // namespace

const std::vector<Registration>& AllRegistrations() { return Registrations(); }

namespace internal {

bool RecordRegistration(const char* file, std::string name) {
  Registrations().push_back({file, std::move(name)});
  return true;
}

}  // namespace internal
}  // namespace antiphon
