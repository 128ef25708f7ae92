// antiphon serve: recognition for other programs and for browsers, over HTTP and WebSocket.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "antiphon/log.h"
#include "api/listening_options.h"
#include "api/recognizer_impl.h"
#include "api/stream.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/open_files.h"
#include "command.h"
#include "serve/model_set.h"
#include "serve/net/server.h"
#include "serve/options.h"

namespace antiphon::app {
namespace {

struct ServeCommandOptions {
  std::vector<std::string> model;
  std::string graph, profiles, written;
  serve::ServeOptions serve;
  ListeningOptions listening;

  ServeCommandOptions() {
    listening.nnet.precision = "auto";
    listening.recognize.search.graph_cache_mb = 64;  // a hundred streams share the machine's memory
  }

  template <class V>
  void Visit(V& v) {
    v("model", model, "what antiphon bundle made, or NAME=FILE for several, of which the first is what clients get");
    v("graph", graph, "folder that antiphon graph made, for the model file of a network; empty: the bundle's");
    v("profiles", profiles, "folder of speakers' profiles, NAME.safetensors, which clients choose by name");
    v("written", written,
      "give what people would write in place of the words, with numbers, full stops and capitals: english, what "
      "antiphon written made, or bundle, each bundle's own; empty: the words");
    serve.Visit(v);
    listening.Visit(v);
  }
};

std::atomic<bool> reload_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

extern "C" void OnHangUp(int /*signal*/) { reload_asked.store(true); }

// Writes what the library says while it serves into the server's log, as JSON.
class LibraryLog {
 public:
  explicit LibraryLog(serve::JsonLog& log) {
    SetLogCallback([&log](LogLevel level, std::string_view message) {
      log.Write(level == LogLevel::kWarning ? "warning" : "info", "library", {{"message", message}});
    });
  }
  LibraryLog(const LibraryLog&) = delete;
  ~LibraryLog() { SetLogCallback({}); }
};

// Without a free descriptor a server cannot accept a connection, not even to answer that it is busy.
void RequireOpenFiles(const serve::LimitOptions& limits) {
  constexpr int64_t kOfAnUpload = 8, kOthers = 64;  // besides its connection; models, the log, what waits for sockets
  const int64_t needed = limits.connections + kOfAnUpload * limits.uploads + kOthers;
  const int64_t allowed = OpenFileLimit();
  if (needed <= allowed) return;
  Throw<UsageError>(
      "--limits.connections {} and --limits.uploads {} need up to {} open files, but this process may have {} only: "
      "lower them, or raise the hard limit (ulimit -Hn; LimitNOFILE of a systemd service)",
      limits.connections, limits.uploads, needed, allowed);
}

void Serve(const ServeCommandOptions& options, CommandContext& context) {
  RequireOpenFiles(options.serve.limits);
  // Until the server handles signals, main's handlers do, for which SIGHUP is a request to stop.
  std::signal(SIGHUP, OnHangUp);
  // Who reads the log may go before the server does.
  std::signal(SIGPIPE, SIG_IGN);
  // One thread per stream; many streams share the server's.
  RecognizerOptions recognizers = RecognizerOptionsOf(options.listening, !options.profiles.empty(), 1);
  recognizers.written = options.written;
  serve::ModelSet models(options.model, options.profiles, [&](const std::string& path) {
    return RecognizerAccess::Make(path, options.graph, recognizers);
  });
  serve::Server server(options.serve, SettingsOf(options.listening.live), models, stderr, context.threads());
  const LibraryLog library_log(server.context().log);
  server.HandleSignals();
  ThrowIfCancelled("loading the models");
  if (reload_asked.load()) server.Reload();
  context.Print("http://{}:{}/ serves {}", options.serve.address, server.port(), models.Names());
  context.out().flush();
  server.Run();
}

REGISTER_COMMAND(
    "serve", ServeCommandOptions, Serve,
    {.summary = "recognise for other programs and browsers, over HTTP and WebSocket",
     .description =
         "Serves Vosk's WebSocket protocol, OpenAI's and whisper.cpp's interfaces for recordings, and a page "
         "with a microphone, all on one port. SIGHUP reads the models anew, SIGTERM and SIGUSR1 end when all "
         "streams did. The log is JSON on standard error.",
     .example = "antiphon serve mine.antiphon --port 2700\n"
                "antiphon serve en=english.antiphon de=german.antiphon --address 0.0.0.0 --token-file tokens.txt",
     .positionals = {"model"},
     .required = {"model"},
     .common = {"address", "port", "token-file", "origins", "hosts", "profiles", "log-words", "limits.streams",
                "limits.uploads", "graph", "written", "vad", "hotwords", "beam", "nnet.precision"}});

}  // namespace
}  // namespace antiphon::app
