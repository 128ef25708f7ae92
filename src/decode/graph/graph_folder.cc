#include "decode/graph/graph_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/io_error.h"
#include "base/temporary_file.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLast = "graph.json";

}  // namespace

GraphFolder::GraphFolder(fs::path path) : path_(std::move(path)) { MakeFolder(path_); }

GraphFolder::~GraphFolder() {
  std::error_code ignored;
  for (const std::string& name : names_) fs::remove(TemporaryPath(path_ / name), ignored);
}

fs::path GraphFolder::New(const std::string& name) {
  if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  return TemporaryPath(path_ / name);
}

void GraphFolder::Commit() {
  const auto last = std::ranges::find(names_, kLast);
  CHECK(last != names_.end()) << path_.string();
  std::rotate(last, last + 1, names_.end());
  // Everything has its place on the disk. The old graph.json goes before the first file that it describes.
  std::error_code error;
  fs::remove(path_ / kLast, error);
  if (error) ThrowIo("remove", path_ / kLast, error.value());
  while (!names_.empty()) {
    fs::rename(TemporaryPath(path_ / names_.front()), path_ / names_.front(), error);
    if (error) ThrowIo("rename to", path_ / names_.front(), error.value());
    names_.erase(names_.begin());
  }
  const FileDescriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some file systems cannot sync a folder; they say EINVAL, and there is nothing more to do.
  if (folder.get() < 0 || (::fsync(folder.get()) != 0 && errno != EINVAL)) ThrowIo("sync", path_, errno);
}

}  // namespace antiphon::decode
