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
      connections({options.limits.connections, "connections", "connections are open"}, metrics),
      streams({options.limits.streams, "streams", "streams are open"}, metrics),
      uploads({options.limits.uploads, "uploads", "recordings are under way"}, metrics),
      scheduler(threads) {}

Refusal ServerContext::RefusalNow(const Slots& slots) const {
  if (draining) return {"draining", "the server is going down: try again soon"};
  if (const double delay_s = scheduler.delay_s(); delay_s > options.limits.delay_s) {
    return {"delay", fmt::format("speech waits for {:.1f} s: try again later", delay_s)};
  }
  return slots.all_taken() ? slots.AllTaken() : Refusal{};
}

Admission ServerContext::Admit(Slots& slots, const std::string& remote) {
  Admission admission{.slot = nullptr, .refusal = RefusalNow(slots)};
  if (admission.refusal.reason.empty()) admission.slot = slots.Take();
  if (admission.slot) return admission;
  if (admission.refusal.reason.empty()) admission.refusal = slots.AllTaken();
  Refused(admission.refusal.reason, remote, {{"message", admission.refusal.message}});
  return admission;
}

void ServerContext::Refused(const std::string& reason, const std::string& remote, const nlohmann::ordered_json& what) {
  Count(reason);
  nlohmann::ordered_json fields = {{"remote", remote}, {"reason", reason}};
  fields.update(what);
  log.Write("warning", "refused", fields);
}

}  // namespace antiphon::serve
