// A training as a configuration file of `antiphon train` describes it: the request, and how its processes are started.
//
// Threads: plain data and functions. Errors: UsageError; InputError for what is no bundle.
#pragma once

#include <string>

#include "base/config.h"
#include "base/options.h"
#include "train/training_request.h"

namespace antiphon::pipeline {

// Help of options of whatever starts trainings of its own from such a file.
inline constexpr const char* kTrainingHelp = "configuration of antiphon train, store and network included";
inline constexpr const char* kTrainingWithHelp = "settings that replace those of --training: key=value";

/// Of a training in processes of its own. What starts them belongs to the program (apps/antiphon/supervise.h).
struct SuperviseOptions {
  int restarts = 0;
  std::string launch;
  template <class V>
  void Visit(V& v) {
    v("restarts", restarts, Range{0, 1 << 20},
      "start the run again from its last checkpoint, at most so many times, when it fails (a rank killed, stopped or "
      "unreachable, a machine lost)");
    v("launch", launch,
      "command that starts the run's processes, such as 'mpirun -np 4 --hostfile hosts' or 'srun -n 4'; empty: one "
      "process. Its workers are spread over them");
  }
  bool any() const { return restarts > 0 || !launch.empty(); }
};

struct TrainingJob {
  train::TrainingRequest request;
  SuperviseOptions supervise;

  TrainingJob();  // as TrainingRequest's
};

/// Everything that the file says, tables, seed and threads included. UsageError for what `antiphon train` would refuse
/// to read, and for a file that asks it to evaluate a model instead.
TrainingJob ReadTrainingJob(const Config& config);

/// With the model files of bundles, and of folders that recipes made, where the request names those.
train::TrainingRequest WithModelFiles(train::TrainingRequest request);

}  // namespace antiphon::pipeline
