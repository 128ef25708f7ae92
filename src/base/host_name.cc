#include "base/host_name.h"

#include <unistd.h>

#include <array>

namespace antiphon {

std::string HostName() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return {};
  return host.data();
}

}  // namespace antiphon
