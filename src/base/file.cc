#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ext/stdio_filebuf.h>
#include <ios>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/archive.h"
#include "base/check.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/io_error.h"
#include "base/temporary_file.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

void SyncPath(const fs::path& path, int flags) {
  FileDescriptor fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (fd.get() < 0) ThrowIo("open", path, errno);
  // Some file systems cannot sync a folder; they say EINVAL, and there is nothing more to do.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) ThrowIo("sync", path, errno);
}

// A file put in the place of a device or pipe (which root may do) would be the end of it, for every program.
// /dev/stdout is a link that may lead to a regular file.
void RefuseDevice(const fs::path& path) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  if (!fs::exists(status)) return;
  if (fs::is_directory(status)) ThrowIo("write", path, EISDIR);
  if (fs::is_regular_file(status) && path.parent_path() != "/dev") return;
  Throw<IoError>(
      "cannot write '{}': a file that is never half there takes the place of what bears its name, and this "
      "is a device or a pipe; write to a file",
      path.string());
}

// A new file of this writer, at `temporary`, beside `path`. What somebody else put there, a link to a file that only
// this user may write to, say, is not written through.
FileDescriptor CreateTemporary(const fs::path& path, fs::path& temporary) {
  for (;;) {
    temporary = NewTemporaryPath(path);
    // For reading, too, as locks of network file systems want it.
    FileDescriptor file(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.get() < 0 && errno != EEXIST) ThrowIo("write", temporary, errno);
    if (file.get() >= 0 && LockTemporary(file)) return file;
  }
}

// A stream into a file that is open already: by its name, it might be another one by now.
void OpenStream(FileDescriptor file, std::ofstream& stream) {
  __gnu_cxx::stdio_filebuf<char> buffer(file.release(), std::ios::out | std::ios::binary);
  if (buffer.is_open()) {
    *stream.rdbuf() = std::move(buffer);
  } else {
    stream.setstate(std::ios::failbit);
  }
}

}  // namespace

std::string ReadFile(const fs::path& path) {
  std::error_code status;
  if (fs::is_directory(path, status)) ThrowIo("read", path, EISDIR);
  if (FindArchive(path)) {
    const MappedFile member(path);
    return {reinterpret_cast<const char*>(member.bytes().data()), member.bytes().size()};
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) ThrowIo("open", path, errno != 0 ? errno : EIO);
  try {
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure& e) {  // of the stream's buffer itself, which knows no path
    const std::error_category& kind = e.code().category();
    ThrowIo("read", path, kind == std::generic_category() || kind == std::system_category() ? e.code().value() : EIO);
  }
}

void WriteFileAtomically(const fs::path& path, std::string_view bytes) {
  WriteFileAtomically(path, [&](std::ostream& out) { out.write(bytes.data(), std::ssize(bytes)); });
}

void WriteFileAtomically(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  AtomicFile file(path);
  write(file.stream());
  file.Commit();
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  RefuseDevice(path_);
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  MakeFolder(folder);
  RemoveStaleTemporaries(folder);
  FileDescriptor file = CreateTemporary(path_, temporary_);
  errno = 0;
  OpenStream(std::move(file), stream_);
  CheckStream();
}

AtomicFile::~AtomicFile() {
  if (committed_) return;
  stream_.close();
  ::unlink(temporary_.c_str());
}

void AtomicFile::CheckStream() {
  if (!stream_) ThrowIo("write", temporary_, errno != 0 ? errno : EIO);
}

void AtomicFile::Finish() {
  if (locked_.get() >= 0) return;
  CheckStream();
  // Closing the stream drops its lock; this descriptor holds one until the file has its name.
  FileDescriptor locked(::open(temporary_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (locked.get() < 0) ThrowIo("open", temporary_, errno);
  if (!LockTemporary(locked)) ThrowIo("open", temporary_, ENOENT);
  errno = 0;
  stream_.close();
  CheckStream();
  SyncPath(temporary_, O_RDONLY);
  locked_ = std::move(locked);
}

void AtomicFile::Commit() {
  CHECK(!committed_) << path_.string();
  Finish();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) ThrowIo("rename to", path_, errno);
  committed_ = true;
  locked_.Close();
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  SyncPath(folder, O_RDONLY | O_DIRECTORY);
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const auto place = FindArchive(path);
  Map(AT_FDCWD, place ? place->archive.c_str() : path.c_str());
  if (!place) return;
  const auto member = FindMember(*place);
  if (!member) {
    Unmap();
    Throw<IoError>("cannot open '{}': '{}' holds no '{}'", path.string(), place->archive.string(), place->name);
  }
  bytes_ = mapped_.subspan(member->offset, member->size);
}

MappedFile::MappedFile(const HeldFolder& folder, const fs::path& name) : path_(folder.path() / name) {
  Map(folder.fd_.get(), name.c_str());
}

void MappedFile::Map(int folder, const char* name) {
  // O_NONBLOCK: a pipe is to be refused, not waited for.
  FileDescriptor fd(::openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) ThrowIo("open", path_, errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) ThrowIo("examine", path_, errno);
  if (!S_ISREG(info.st_mode)) Throw<IoError>("cannot map '{}': it is not a regular file", path_.string());
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) ThrowIo("map", path_, errno);
  bytes_ = mapped_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      mapped_(std::exchange(other.mapped_, {})),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Unmap();
    path_ = std::move(other.path_);
    mapped_ = std::exchange(other.mapped_, {});
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

MappedFile::~MappedFile() { Unmap(); }

void MappedFile::Unmap() noexcept {
  if (!mapped_.empty()) ::munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

HeldFolder::HeldFolder(fs::path path) : path_(std::move(path)), fd_(::open(path_.c_str(), O_PATH | O_CLOEXEC)) {
  if (fd_.get() < 0 && errno != ENOENT && errno != ENOTDIR) ThrowIo("open", path_, errno);
}

bool HeldFolder::Has(const fs::path& name) const {
  return fd_.get() >= 0 && ::faccessat(fd_.get(), name.c_str(), F_OK, 0) == 0;
}

// The number of a folder that is held open is given to no other one.
bool HeldFolder::InPlace() const {
  struct stat now {};
  struct stat held {};
  if (::stat(path_.c_str(), &now) != 0) return fd_.get() < 0;
  return fd_.get() >= 0 && ::fstat(fd_.get(), &held) == 0 && now.st_dev == held.st_dev && now.st_ino == held.st_ino;
}

uint64_t Checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace antiphon
