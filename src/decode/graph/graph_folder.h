// A graph's folder while it is written: whatever happens, a disk that is full say, the graph that was there stays whole
// until all files of the new one lie beside it.
//
//   GraphFolder folder(path);
//   WriteFileAtomically(folder.New("words.txt"), …);   // and the others
//   folder.Commit();                                   // graph.json last: without it there is no graph
//
// What a killed process left is removed by whoever next writes there. Threads: one per object. Errors: IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace antiphon::decode {

class GraphFolder {
 public:
  /// Makes it, if need be.
  explicit GraphFolder(std::filesystem::path path);
  /// Removes the new files, unless they have been committed.
  ~GraphFolder();
  GraphFolder(const GraphFolder&) = delete;
  GraphFolder& operator=(const GraphFolder&) = delete;

  /// Where the file of that name is to be written.
  std::filesystem::path New(const std::string& name);
  /// Gives all new files their names; one of them must be graph.json.
  void Commit();

 private:
  std::filesystem::path path_;
  std::vector<std::string> names_;  // of new files that do not bear them yet
};

}  // namespace antiphon::decode
