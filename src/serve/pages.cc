#include "serve/pages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "antiphon/version.h"
#include "base/printed_json.h"

namespace antiphon::serve {
namespace {

using nlohmann::ordered_json;

HttpReply Ready(const ServerContext& server) {
  const Refusal refusal = server.RefusalNow(server.streams);
  if (refusal.reason.empty()) return {.body = R"({"status":"ready"})"};
  return {.status = 503, .body = PrintedJson({{"status", refusal.reason}, {"message", refusal.message}})};
}

HttpReply MetricsText(ServerContext& server) {
  Metrics& metrics = server.metrics;
  metrics.Set("antiphon_queue_streams", "", server.scheduler.num_waiting());
  metrics.Set("antiphon_queue_delay_seconds", "", server.scheduler.delay_s());
  metrics.Set("antiphon_models", "", static_cast<double>(server.models.All().size()));
  metrics.Set("process_resident_memory_bytes", "", static_cast<double>(ResidentMemoryBytes()));
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics.Text()};
}

ordered_json ModelJson(const ServedModel& model) {
  auto profiles = ordered_json::array();
  for (const auto& [name, profile] : model.profiles) profiles.push_back(name);
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.loaded_at},
          {"owned_by", "antiphon"},
          {"sample_rate", model.recognizer.sample_rate_hz()},
          {"profiles", profiles}};
}

HttpReply Models(const ServerContext& server) {
  auto data = ordered_json::array();
  for (const auto& model : server.models.All()) data.push_back(ModelJson(*model));
  return {.body = PrintedJson({{"object", "list"}, {"data", data}})};
}

HttpReply OneModel(const ServerContext& server, const std::string& name) {
  const auto model = name.empty() ? nullptr : server.models.Find(name);
  if (model) return {.body = PrintedJson(ModelJson(*model))};
  return OpenAiError({.status = 404,
                      .message = "no model is called '" + name + "'; there are: " + server.models.Names(),
                      .param = "model",
                      .code = std::string(kModelNotFound)});
}

// The page is one file: nothing is fetched from elsewhere, and nothing may be.
HttpReply Page() {
  return {
      .content_type = "text/html; charset=utf-8",
      .body = std::string(PageHtml()),
      .headers = {{"Content-Security-Policy",
                   "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:; "
                   "connect-src 'self' ws: wss:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                  {"Permissions-Policy", "microphone=(self)"}}};
}

constexpr std::string_view kModels = "/v1/models";

std::optional<HttpReply> Get(const RequestHead& head, ServerContext& server) {
  const std::string& path = head.path;
  if (path == "/" || path == "/index.html") return Page();
  if (path == "/health")
    return HttpReply{.body = fmt::format(R"({{"status":"ok","version":"{}"}})", LibraryVersionText())};
  if (path == "/ready") return Ready(server);
  if (path == "/metrics") return MetricsText(server);
  if (path == kModels) return Models(server);
  if (path.starts_with(std::string(kModels) + "/")) {
    return OneModel(server, PercentDecoded(std::string_view(path).substr(kModels.size() + 1)));
  }
  return std::nullopt;
}

}  // namespace

bool IsPublic(std::string_view path) {
  return path == "/" || path == "/index.html" || path == "/health" || path == "/ready";
}

std::optional<HttpReply> AnswerPage(const RequestHead& head, ServerContext& server) {
  auto reply = Get(head, server);
  if (!reply || head.method == "GET" || head.method == "HEAD") return reply;
  HttpReply refused = OpenAiError({.status = 405, .message = head.path + " is read by GET"});
  refused.headers = {{"Allow", "GET, HEAD"}};
  return refused;
}

HttpReply OpenAiError(const HttpError& error) {
  const char* type = error.status >= 500 ? "server_error" : "invalid_request_error";
  ordered_json fields = {{"message", error.message}, {"type", type}, {"param", nullptr}, {"code", nullptr}};
  if (!error.param.empty()) fields["param"] = error.param;
  if (!error.code.empty()) fields["code"] = error.code;
  return {.status = error.status, .body = PrintedJson({{"error", fields}})};
}

}  // namespace antiphon::serve
