#include "base/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "base/io_error.h"

namespace antiphon {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "antiphon.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) ThrowIo("make a temporary folder like", name, errno);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code none;
  std::filesystem::remove_all(path_, none);
}

}  // namespace antiphon
