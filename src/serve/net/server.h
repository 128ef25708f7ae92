// A server: listens, takes connections in, and goes down without dropping what is being said.
//
//   ModelSet models({"mine.antiphon"}, "", load);
//   Server server(options, stream_settings, models, stderr, threads);
//   server.Run();    // until Stop, or until a signal, if they are handled
//
// On Stop nobody new is let in, and streams go on until they end, for at most limits.grace seconds; then each gets what
// was recognised so far. A second Stop does not wait. Reload reads the models anew beside the running streams.
//
// Threads: Run reads and writes all sockets; Stop and Reload may be called from any thread.
// Errors: UsageError for an address that others can reach without tokens; IoError if it cannot be listened at.
#pragma once

#include <cstdio>
#include <memory>

#include "serve/server_context.h"

namespace antiphon::serve {

class Server {
 public:
  /// `models` must outlive it. `log_file`: null: no log. `threads`: that recognise.
  Server(const ServeOptions& options, const StreamSettings& stream, ModelSet& models, std::FILE* log_file, int threads);
  ~Server();
  Server(const Server&) = delete;

  /// SIGTERM, SIGINT and SIGUSR1 stop, SIGHUP reloads, from here on.
  void HandleSignals();
  void Run();
  void Stop();
  void Reload();

  int port() const;
  ServerContext& context();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon::serve
