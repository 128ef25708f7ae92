// A file system of a few KiB, or one that cannot be written, for tests of what happens then. Needs the right to mount.
#pragma once

#include <sys/mount.h>

#include <optional>
#include <string>

#include "temporary_folder.h"

namespace antiphon::testing {

class SmallDisk {
 public:
  explicit SmallDisk(int kib) {
    const std::string options = "size=" + std::to_string(kib) + "k";
    mounted_ = ::mount("none", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  /// False where tests may not mount; they skip then.
  bool mounted() const { return mounted_; }
  bool MakeReadOnly() { return ::mount("none", folder_.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0; }
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false;
};

}  // namespace antiphon::testing
