// A program by that name, in place of all that are installed, for as long as the object lives.
//
//   const FakeProgram broken(folder / "bin", "ffmpeg", "exit 1");    // shell, with its own commands alone
//
// Threads: none may read the environment meanwhile.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace antiphon::testing {

class FakeProgram {
 public:
  FakeProgram(const std::filesystem::path& folder, const std::string& name, const std::string& script)
      : before_(std::getenv("PATH")) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(folder / name, std::filesystem::perms::owner_all);
    ::setenv("PATH", folder.c_str(), 1);
  }
  ~FakeProgram() { ::setenv("PATH", before_.c_str(), 1); }
  FakeProgram(const FakeProgram&) = delete;
  FakeProgram& operator=(const FakeProgram&) = delete;

 private:
  std::string before_;
};

}  // namespace antiphon::testing
