#include <antiphon/adapter.h>
#include <antiphon/compressor.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

template <class Worker, class Settings>
auto Run(Settings settings, const CancelToken& given) {
  return Interruptible(
      [&](const CancelToken& cancel) {
        settings.cancel = cancel;
        return Worker(settings).Run();
      },
      /*takes_long=*/true, given);
}

// What the constructor refuses, which is all that can be told without work.
template <class Worker, class Settings>
void Check(const Settings& settings) {
  Unlocked([&] { static_cast<void>(Worker(settings)); });
}

using Stage = std::tuple<int64_t, int64_t, double, double>;
using Measures = std::tuple<double, double, double>;

Stage ToTuple(const CompressionStage& s) { return {s.parameters, s.bytes, s.held_out_loss, s.held_out_accuracy}; }
Measures ToTuple(const AdaptationMeasures& m) { return {m.loss, m.accuracy, m.frames}; }

}  // namespace

void BindImprovement(nb::module_& m) {
  nb::class_<CompressorSettings>(m, "CompressorSettings", "As antiphon.Compressor takes them.")
      .def(nb::init<>())
      .def_rw("model", &CompressorSettings::model)
      .def_rw("method", &CompressorSettings::method)
      .def_rw("out", &CompressorSettings::out)
      .def_rw("frame_store", &CompressorSettings::frame_store)
      .def_rw("held_out_store", &CompressorSettings::held_out_store)
      .def_rw("config", &CompressorSettings::config)
      .def_rw("seed", &CompressorSettings::seed)
      .def_rw("threads", &CompressorSettings::threads);
  nb::class_<CompressionOutcome>(m, "CompressionOutcome", "As Compressor.run gives it.")
      .def_ro("model_file", &CompressionOutcome::model_file)
      .def_prop_ro("before", [](const CompressionOutcome& o) { return ToTuple(o.before); })
      .def_prop_ro("compressed", [](const CompressionOutcome& o) { return ToTuple(o.compressed); })
      .def_prop_ro("retrained", [](const CompressionOutcome& o) { return ToTuple(o.retrained); });
  nb::class_<AdapterSettings>(m, "AdapterSettings", "As antiphon.Adapter takes them.")
      .def(nb::init<>())
      .def_rw("model", &AdapterSettings::model)
      .def_rw("method", &AdapterSettings::method)
      .def_rw("out", &AdapterSettings::out)
      .def_rw("frame_store", &AdapterSettings::frame_store)
      .def_rw("held_out_store", &AdapterSettings::held_out_store)
      .def_rw("old_store", &AdapterSettings::old_store)
      .def_rw("hmm", &AdapterSettings::hmm)
      .def_rw("config", &AdapterSettings::config)
      .def_rw("seed", &AdapterSettings::seed)
      .def_rw("threads", &AdapterSettings::threads);
  nb::class_<AdaptationOutcome>(m, "AdaptationOutcome", "As Adapter.run gives it.")
      .def_ro("accepted", &AdaptationOutcome::accepted)
      .def_ro("verdict", &AdaptationOutcome::verdict)
      .def_ro("model_file", &AdaptationOutcome::model_file)
      .def_ro("profile_file", &AdaptationOutcome::profile_file)
      .def_prop_ro("new_before", [](const AdaptationOutcome& o) { return ToTuple(o.new_before); })
      .def_prop_ro("new_after", [](const AdaptationOutcome& o) { return ToTuple(o.new_after); })
      .def_prop_ro("old_before", [](const AdaptationOutcome& o) { return ToTuple(o.old_before); })
      .def_prop_ro("old_after", [](const AdaptationOutcome& o) { return ToTuple(o.old_after); });
  m.def("check_compression", &Check<Compressor, CompressorSettings>, nb::arg("settings"), "Refuses what cannot be.");
  m.def("check_adaptation", &Check<Adapter, AdapterSettings>, nb::arg("settings"), "Likewise.");
  m.def("compress", &Run<Compressor, CompressorSettings>, nb::arg("settings"), nb::arg("cancel"), "As Compressor.run.");
  m.def("adapt", &Run<Adapter, AdapterSettings>, nb::arg("settings"), nb::arg("cancel"), "As Adapter.run.");
}

}  // namespace antiphon::python
