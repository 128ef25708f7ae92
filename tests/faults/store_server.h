// The server of tests/faults/store_server.py, for as long as this lives.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace antiphon::testing {

class StoreServer {
 public:
  /// `more`: certificate and key.
  explicit StoreServer(const std::filesystem::path& folder, std::vector<std::string> more = {}) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    std::array<int, 2> in{}, out{};
    if (::pipe(in.data()) != 0 || ::pipe(out.data()) != 0) throw std::runtime_error("no pipes");
    std::vector<std::string> words = {"python3", ANTIPHON_SOURCE_DIR "/tests/faults/store_server.py", folder.string()};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    std::string line;
    char c = 0;
    while (::read(out[0], &c, 1) == 1 && c != '\n') line += c;
    ::close(out[0]);
    if (line.empty()) throw std::runtime_error("the server did not start");
    scheme_ = more.empty() ? "http" : "https";
    port_ = line;
  }
  StoreServer(const StoreServer&) = delete;
  ~StoreServer() {
    ::close(input_);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  std::string host() const { return scheme_ + "://127.0.0.1:" + port_; }
  /// The folder as it is seen with a fault.
  std::string With(const std::string& fault) const { return host() + "/" + fault; }

 private:
  pid_t child_ = -1;
  int input_ = -1;
  std::string scheme_;
  std::string port_;
};

}  // namespace antiphon::testing
