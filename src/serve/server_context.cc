#include "serve/server_context.h"

#include <fmt/format.h>

namespace antiphon::serve {

ServerContext::ServerContext(const ServeOptions& its_options, const StreamSettings& its_stream, ModelSet& its_models,
                             std::FILE* log_file, int threads)
    : options(its_options),
      stream(its_stream),
      models(its_models),
      access(options.access),
      log(log_file, options.log_words),
      connections(options.limits.connections, metrics, "antiphon_connections"),
      streams(options.limits.streams, metrics, "antiphon_streams"),
      uploads(options.limits.uploads, metrics, "antiphon_uploads"),
      scheduler(threads) {}

Refusal ServerContext::RefusalNow() const {
  if (draining) return {"draining", "the server is going down: try again soon"};
  if (const double delay_s = scheduler.delay_s(); delay_s > options.limits.delay_s) {
    return {"delay", fmt::format("speech waits for {:.1f} s: try again later", delay_s)};
  }
  return {};
}

}  // namespace antiphon::serve
