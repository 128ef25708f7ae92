// antiphon targets: a teacher's posteriors of every frame of a store, computed once.
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "command.h"
#include "train/soft_targets.h"
#include "train/warm_start.h"

namespace antiphon::app {
namespace {

struct TargetsCommandOptions {
  std::string store, out;
  std::vector<std::string> models;
  data::ShardCacheOptions cache;
  train::SoftTargetOptions targets;

  template <class V>
  void Visit(V& v) {
    v("models", models, "networks; the posteriors of several are averaged");
    v("store", store, "frame store that the student will be trained on");
    v("out", out, "file to write");
    targets.Visit(v);
    v.Group("data", cache);
  }
};

void Targets(const TargetsCommandOptions& options, CommandContext& context) {
  data::FrameStoreAccess access;
  access.cache = options.cache;
  const auto store = std::make_shared<const data::FrameStore>(options.store, access);
  train::TeacherOptions teachers;
  teachers.models = options.models;
  const double kept = train::SoftTargets::Write(options.out, store, train::LoadTeachers(teachers), options.targets);
  context.Print("{}: {} posteriors of {} frames hold {:.2f} % of the mass on average", options.out, options.targets.top,
                store->num_frames(), 100 * kept);
  context.SetResult(nlohmann::json({{"frames", store->num_frames()}, {"kept", kept}}).dump());
}

REGISTER_COMMAND(
    "targets", TargetsCommandOptions, Targets,
    {.summary = "store a teacher's posteriors for training students",
     .description = "The largest posteriors of each frame, so that a teacher, or an ensemble of them, runs "
                    "once and not in every epoch, and may see more context than its student. Train with "
                    "teacher.targets.",
     .example = "antiphon targets --store exp/store --out exp/targets.bin exp/dnn/model.safetensors\n"
                "antiphon train --config student.toml --store exp/store --set teacher.targets=exp/targets.bin "
                "--set teacher.weight=1",
     .positionals = {"models"},
     .required = {"models", "store", "out"}});

}  // namespace
}  // namespace antiphon::app
