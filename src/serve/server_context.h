// What all connections of a server share.
//
// Threads: members are safe together; `sessions` belongs to the thread that reads and writes the sockets.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "antiphon/stream.h"
#include "serve/access.h"
#include "serve/json_log.h"
#include "serve/metrics.h"
#include "serve/model_set.h"
#include "serve/options.h"
#include "serve/scheduler.h"
#include "serve/slots.h"

namespace antiphon::serve {

/// What goes on for longer than one answer, and has to be ended when the server goes.
class LiveSession {
 public:
  virtual ~LiveSession() = default;
  /// Gives what was recognised so far, and closes.
  virtual void FinishNow() = 0;
};

/// A place for a stream or an upload, or why there is none.
struct Admission {
  Slot slot;  // null: refused
  Refusal refusal;
};

struct ServerContext {
  ServerContext(const ServeOptions& its_options, const StreamSettings& its_stream, ModelSet& its_models,
                std::FILE* log_file, int threads);

  /// Whether the server can take on more speech: it is not going down, does not lag behind, and has places.
  Refusal RefusalNow(const Slots& slots) const;
  /// Takes a place, or refuses `remote`.
  Admission Admit(Slots& slots, const std::string& remote);
  void Count(const std::string& reason) { metrics.Add("antiphon_refused_total", "reason=\"" + reason + "\""); }
  /// Counts a refusal and logs it; `what`: further fields.
  void Refused(const std::string& reason, const std::string& remote, const nlohmann::ordered_json& what);

  const ServeOptions options;
  const StreamSettings stream;  // of every stream, but for what clients may choose
  ModelSet& models;
  Access access;
  Metrics metrics;
  JsonLog log;
  Slots connections, streams, uploads;
  Scheduler scheduler;
  std::atomic<bool> draining = false;
  std::atomic<int64_t> next_id = 1;        // of streams and uploads, in the log
  std::string program = "/proc/self/exe";  // which decodes recordings
  std::vector<std::weak_ptr<LiveSession>> sessions;
};

}  // namespace antiphon::serve
