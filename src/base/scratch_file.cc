#include "base/scratch_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/io_error.h"

namespace antiphon {

FileDescriptor NewScratchFile() {
  std::string name = (std::filesystem::temp_directory_path() / "antiphon.XXXXXX").string();
  FileDescriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.get() < 0 || ::unlink(name.c_str()) != 0) ThrowIo("make a temporary file like", name, errno);
  return file;
}

std::filesystem::path PathOf(const FileDescriptor& file) { return "/proc/self/fd/" + std::to_string(file.get()); }

}  // namespace antiphon
