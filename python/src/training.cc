#include <antiphon/trainer.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>

#include "bindings.h"

namespace antiphon::python {
namespace {

// Ctrl-C and `given` stop the training between two steps, with everything saved, wherever that is heard. `hear` gets
// each record as JSON text; where it says False, the training ends there.
TrainingResult Run(TrainerSettings settings, const nb::object& hear, const CancelToken& given) {
  return UntilDone(
      [&](Call& call) {
        settings.cancel = call.cancel;
        settings.on_metrics = [&](const std::string& json) {
          bool go_on = true;
          call.InPython([&] { go_on = nb::cast<bool>(hear(json)); });
          if (!go_on) throw std::runtime_error("the training was stopped from Python");
        };
        return Trainer(settings).Run();
      },
      given);
}

}  // namespace

void BindTraining(nb::module_& m) {
  nb::class_<TrainerSettings>(m, "TrainerSettings", "As antiphon.train takes them.")
      .def(nb::init<>())
      .def_rw("frame_store", &TrainerSettings::frame_store)
      .def_rw("run_folder", &TrainerSettings::run_folder)
      .def_rw("hmm", &TrainerSettings::hmm)
      .def_rw("front_end", &TrainerSettings::front_end)
      .def_rw("config", &TrainerSettings::config)
      .def_rw("seed", &TrainerSettings::seed)
      .def_rw("threads", &TrainerSettings::threads)
      .def_rw("resume", &TrainerSettings::resume)
      .def_rw("log_to", &TrainerSettings::log_to);
  nb::class_<TrainingResult>(m, "TrainingResult", "As antiphon.train gives it.")
      .def_ro("model_file", &TrainingResult::model_file)
      .def_ro("report_file", &TrainingResult::report_file)
      .def_ro("frames", &TrainingResult::frames)
      .def_ro("held_out_accuracy", &TrainingResult::held_out_accuracy)
      .def_ro("held_out_loss", &TrainingResult::held_out_loss)
      .def_ro("frames_per_second", &TrainingResult::frames_per_second);
  m.def("train", &Run, nb::arg("settings"), nb::arg("hear"), nb::arg("cancel"), "As antiphon.train.");
}

}  // namespace antiphon::python
