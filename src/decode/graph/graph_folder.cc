#include "decode/graph/graph_folder.h"

#include <ostream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/io_error.h"
#include "decode/graph/graph_json.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLast = "graph.json";

}  // namespace

GraphFolder::GraphFolder(fs::path path) : path_(std::move(path)) { MakeFolder(path_); }

AtomicFile& GraphFolder::New(const std::string& name) {
  const auto [file, is_new] = files_.try_emplace(name, path_ / name);
  CHECK(is_new) << name;
  return file->second;
}

void GraphFolder::Write(const std::string& name, std::string_view text) {
  AtomicFile& file = New(name);
  file.stream() << text;
  file.CheckStream();  // here errno still says why
}

std::string GraphFolder::NewChecksum(const std::string& name) {
  AtomicFile& file = files_.at(name);
  file.Finish();
  return HexChecksum(file.temporary());
}

void GraphFolder::Commit() {
  const auto last = files_.find(kLast);
  CHECK(last != files_.end()) << path_.string();
  for (auto& [name, file] : files_) file.Finish();
  // Everything has its place on the disk. The old graph.json goes before the first file that it describes.
  std::error_code error;
  fs::remove(path_ / kLast, error);
  if (error) ThrowIo("remove", path_ / kLast, error.value());
  for (auto& [name, file] : files_) {
    if (name != kLast) file.Commit();
  }
  last->second.Commit();
  files_.clear();
}

}  // namespace antiphon::decode
