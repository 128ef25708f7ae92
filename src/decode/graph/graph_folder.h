// A graph's folder while it is written: whatever happens, a disk that is full say, the graph that was there stays whole
// until all files of the new one lie beside it.
//
//   GraphFolder folder(path);
//   folder.New("words.txt").stream() << …;   // and the others
//   folder.Commit();                         // graph.json last: without it there is no graph
//
// What a killed process left is removed by whoever next writes there; what others write meanwhile is left alone. Of two
// that write there at once each has files of its own, and the last to commit has the graph.
// Threads: one per object. Errors: IoError.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "base/file.h"

namespace antiphon::decode {

class GraphFolder {
 public:
  /// Makes it, if need be.
  explicit GraphFolder(std::filesystem::path path);
  /// The new file of that name, to be written to; it is removed with this, unless Commit gave it its name.
  AtomicFile& New(const std::string& name);
  /// The same with all that it holds.
  void Write(const std::string& name, std::string_view text);
  /// As graph.json has it, of a new file to which no more is written.
  std::string NewChecksum(const std::string& name);
  /// Gives all new files their names; one of them must be graph.json.
  void Commit();

 private:
  std::filesystem::path path_;
  std::map<std::string, AtomicFile> files_;
};

}  // namespace antiphon::decode
