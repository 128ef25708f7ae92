#include "report/mlflow.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

namespace antiphon::report {
namespace {

namespace fs = std::filesystem;

// A number of its own, so that stores that others write too have no clash; mlflow takes any whole number.
constexpr char kExperimentId[] = "684312776014219563";
constexpr char kExperimentName[] = "antiphon";
constexpr int kRunning = 1;
constexpr int kFinished = 3;
constexpr int kKilled = 5;
constexpr size_t kLongestParameter = 500;  // that all versions of mlflow take

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A text in YAML's single quotes.
std::string Quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "'";
}

std::string UriOf(const fs::path& path) {
  std::string uri = "file://";
  for (const char c : fs::absolute(path).lexically_normal().string()) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) != 0 || std::string_view("-_.~/").find(c) != std::string_view::npos;
    uri += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

// What mlflow takes for names of metrics and parameters.
std::string CleanName(std::string name) {
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::string_view("_-. /").find(c) == std::string_view::npos)
      c = '_';
  }
  return name;
}

// An epoch's mean stands beside its last step, and must not take its place; what is measured on held-out speech has
// epochs alone. The Python package names what it sends likewise (python/antiphon/_log_to.py).
std::string MetricName(const std::string& kind, const std::string& field) {
  if (kind == "finish") return CleanName("final_" + field);
  if (kind == "epoch" && !field.starts_with("held_out")) return CleanName("epoch_" + field);
  return CleanName(field);
}

std::string NewRunId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

std::string UserName() {
  const char* const user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return user != nullptr ? user : "";
}

}  // namespace

MlflowRun::MlflowRun(fs::path store, MlflowSettings settings)
    : store_(std::move(store)), settings_(std::move(settings)) {}

MlflowRun::~MlflowRun() {
  if (run_id_.empty() || finished_) return;
  try {
    WriteMeta(kKilled, Now());
  } catch (const std::exception& e) {
    log::Warn("{}", e.what());
  }
}

void MlflowRun::MakeExperiment() {
  const fs::path folder = store_ / kExperimentId;
  if (fs::exists(folder / "meta.yaml")) return;
  const int64_t now = Now();
  WriteFileAtomically(folder / "meta.yaml",
                      fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: "
                                  "{}\nlifecycle_stage: active\nname: {}\n",
                                  UriOf(folder), now, kExperimentId, now, kExperimentName));
}

void MlflowRun::WriteMeta(int status, int64_t end_time) const {
  const fs::path folder = store_ / kExperimentId / run_id_;
  WriteFileAtomically(
      folder / "meta.yaml",
      fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\nlifecycle_stage: "
                  "active\nrun_id: {}\nrun_name: {}\nrun_uuid: {}\nsource_name: antiphon\nsource_type: "
                  "4\nsource_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: {}\n",
                  UriOf(folder / "artifacts"), end_time > 0 ? std::to_string(end_time) : "null", kExperimentId, run_id_,
                  Quoted(settings_.run_folder.filename().string()), run_id_, start_time_, status, Quoted(UserName())));
}

void MlflowRun::Begin(bool anew) {
  MakeExperiment();
  const fs::path file = settings_.run_folder / "mlflow_run.json";
  const std::string place = fs::absolute(store_).lexically_normal().string();
  auto kept = fs::exists(file) ? nlohmann::json::parse(ReadFile(file), nullptr, false) : nlohmann::json();
  if (!kept.is_object()) kept = nlohmann::json::object();
  if (!anew && kept.contains(place) && kept[place].is_object()) {
    run_id_ = kept[place].value("run_id", "");
    start_time_ = kept[place].value("start_time", int64_t{0});
  }
  if (run_id_.empty()) {
    run_id_ = NewRunId();
    start_time_ = Now();
    kept[place] = {{"run_id", run_id_}, {"start_time", start_time_}};
    WriteFileAtomically(file, kept.dump(1) + "\n");
  }
  const fs::path folder = store_ / kExperimentId / run_id_;
  fs::remove_all(folder / "metrics");
  for (const char* part : {"metrics", "artifacts"}) fs::create_directories(folder / part);
  WriteFileAtomically(folder / "tags" / "mlflow.runName", settings_.run_folder.filename().string());
  WriteFileAtomically(folder / "tags" / "mlflow.source.name", "antiphon train");
  for (const auto& [key, value] : settings_.parameters) {
    WriteFileAtomically(folder / "params" / CleanName(key), value.substr(0, kLongestParameter));
  }
  const fs::path config = settings_.run_folder / "config.toml";
  if (fs::exists(config)) WriteFileAtomically(folder / "artifacts" / "config.toml", ReadFile(config));
  WriteMeta(kRunning, 0);
}

void MlflowRun::Append(const MetricsRecord& record) {
  const std::string kind = record.kind();
  if (kind == "event") return;
  const auto step = static_cast<int64_t>(record.Number(kind == "finish" ? "steps" : "step").value_or(0));
  const fs::path folder = store_ / kExperimentId / run_id_ / "metrics";
  const int64_t now = Now();
  for (const auto& [name, value] : record.fields()) {
    const auto number = record.Number(name);
    if (!number || name == "step" || name == "steps" || std::isnan(*number)) continue;
    const fs::path file = folder / MetricName(kind, name);
    std::ofstream stream(file, std::ios::app);
    stream << fmt::format("{} {} {}\n", now, *number, step);
    stream.close();
    if (!stream) Throw<IoError>("cannot write '{}'", file.string());
  }
}

void MlflowRun::Write(const MetricsRecord& record) {
  if (run_id_.empty()) {
    Begin(record.kind() == "start");
    for (const MetricsRecord& earlier : ReadMetrics(settings_.run_folder / "metrics.jsonl")) Append(earlier);
  } else {
    Append(record);
  }
  if (record.kind() != "finish") return;
  finished_ = true;
  WriteMeta(kFinished, Now());
}

}  // namespace antiphon::report
