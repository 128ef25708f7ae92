// antiphon serve: recognition for other programs and for browsers, over HTTP and WebSocket.

#include <cstdio>
#include <string>
#include <vector>

#include "antiphon/log.h"
#include "api/recognizer_impl.h"
#include "api/recognizer_options.h"
#include "api/stream.h"
#include "base/compute_threads.h"
#include "command.h"
#include "pipeline/graph_changes.h"
#include "serve/model_set.h"
#include "serve/net/server.h"
#include "serve/options.h"

namespace antiphon::app {
namespace {

infer::NnetScorerOptions FastScorer() {
  infer::NnetScorerOptions options;
  options.precision = "auto";
  return options;
}

struct ServeCommandOptions {
  std::vector<std::string> model;
  std::string graph, profiles, rescore_arpa, graph_arpa;
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  serve::ServeOptions serve;
  pipeline::GraphChanges changes;
  LiveOptions live;
  decode::RecognizeOptions recognize;
  infer::NnetScorerOptions nnet = FastScorer();

  template <class V>
  void Visit(V& v) {
    v("model", model, "what antiphon bundle made, or NAME=FILE for several, of which the first is what clients get");
    v("graph", graph, "folder that antiphon graph made, for the model file of a network; empty: the bundle's");
    v("profiles", profiles, "folder of speakers' profiles, NAME.safetensors, which clients choose by name");
    v("rescore-arpa", rescore_arpa, "larger language model that replaces the graph's when an utterance is over");
    v("graph-arpa", graph_arpa, "the language model that the graph was built with, for --rescore-arpa");
    v("lm-weight", lm_weight, Range{0.0, 1000.0},
      "weight of the language model in choosing the result; 0: the search's");
    v("word-penalty", word_penalty, Range{-100.0, 100.0}, "cost per word in choosing the result");
    serve.Visit(v);
    changes.Visit(v);
    live.Visit(v);
    recognize.Visit(v);
    v.Group("nnet", nnet);
  }
};

RecognizerOptions RecognizersOf(const ServeCommandOptions& options) {
  RecognizerOptions all;
  all.rescore_arpa = options.rescore_arpa;
  all.graph_arpa = options.graph_arpa;
  all.lm_weight = options.lm_weight;
  all.word_penalty = options.word_penalty;
  all.changes = options.changes;
  all.adaptation.passes = 0;  // that is for whole recordings
  all.recognize = options.recognize;
  all.nnet = options.nnet;
  all.nnet.adaptable = all.nnet.adaptable || !options.profiles.empty();
  all.threads = 1;  // of a stream; many streams share the threads
  return all;
}

// What the library remarks while it serves stands in the server's log, a line of JSON like the others.
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

void Serve(const ServeCommandOptions& options, CommandContext& context) {
  const RecognizerOptions recognizers = RecognizersOf(options);
  serve::ModelSet models(options.model, options.profiles, [&](const std::string& path) {
    return RecognizerAccess::Make(path, options.graph, recognizers);
  });
  serve::Server server(options.serve, SettingsOf(options.live), models, stderr, context.threads());
  const LibraryLog library_log(server.context().log);
  server.HandleSignals();
  context.Print("http://{}:{}/ serves {}", options.serve.address, server.port(), models.Names());
  context.out().flush();
  server.Run();
}

REGISTER_COMMAND(
    "serve", ServeCommandOptions, Serve,
    {.summary = "recognise for other programs and browsers, over HTTP and WebSocket",
     .description =
         "Serves Vosk's WebSocket protocol, OpenAI's and whisper.cpp's interfaces for recordings, and a page "
         "with a microphone, all on one port. SIGHUP reads the models anew, SIGTERM ends when all streams "
         "did. The log is JSON on standard error.",
     .example = "antiphon serve mine.antiphon --port 2700\n"
                "antiphon serve en=english.antiphon de=german.antiphon --address 0.0.0.0 --token-file tokens.txt",
     .positionals = {"model"},
     .required = {"model"},
     .common = {"address", "port", "token-file", "origins", "hosts", "profiles", "log-words", "limits.streams",
                "limits.uploads", "graph", "hotwords", "beam", "nnet.precision"}});

}  // namespace
}  // namespace antiphon::app
