#include "device/device_list.h"

#include <algorithm>

#include "device/device.h"

namespace antiphon {

void RequireDevices(std::string_view names) {
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    RequireDevice(names.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace antiphon
