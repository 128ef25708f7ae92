#include <antiphon/model.h>
#include <antiphon/model_file.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

constexpr double kManyProducts = 1e9;

// Name, whether it is trained, values: the file gives them away.
nb::list TakeTensors(ModelFile& file) {
  nb::list tensors;
  for (ModelTensor& tensor : file.tensors) {
    const auto rows = static_cast<size_t>(tensor.rows), cols = static_cast<size_t>(tensor.cols);
    tensors.append(nb::make_tuple(tensor.name, tensor.trained, ArrayOf(std::move(tensor.values), {rows, cols})));
  }
  file.tensors.clear();
  return tensors;
}

void AddTensor(ModelFile& file, const std::string& name, Rows<float> values) {
  const auto span = SpanOf(values);
  file.tensors.push_back({name,
                          static_cast<int64_t>(values.shape(0)),
                          static_cast<int64_t>(values.shape(1)),
                          true,
                          {span.begin(), span.end()}});
}

auto Layers(const ModelFile& file) {
  std::vector<std::tuple<std::string, std::string, int, int, std::string>> layers;
  for (const ModelLayer& layer : file.Layers()) {
    layers.emplace_back(layer.name, layer.type, layer.in_dim, layer.out_dim, layer.options);
  }
  return layers;
}

}  // namespace

void BindModel(nb::module_& m) {
  nb::class_<Model>(m, "Model", "As antiphon.Model.")
      .def(nb::init<const std::string&>(), nb::arg("file"), nb::call_guard<WithoutLock>())
      .def_prop_ro("feature_dim", &Model::feature_dim, "Values per frame.")
      .def_prop_ro("left_context", &Model::left_context, "Frames spliced on before.")
      .def_prop_ro("right_context", &Model::right_context, "Frames spliced on after.")
      .def_prop_ro("num_outputs", &Model::num_outputs, "Tied states.")
      .def_prop_ro("num_parameters", &Model::num_parameters, "Trained values.")
      .def_prop_ro("network", &Model::network, "Layers, as TOML.")
      .def_prop_ro("features", &Model::features, "The front end's options, as TOML.")
      .def(
          "score",
          [](const Model& self, Rows<float> features) {
            auto scores = Interruptible([&](const CancelToken&) { return self.LogLikelihoods(SpanOf(features)); },
                                        static_cast<double>(features.shape(0)) * self.num_parameters() > kManyProducts);
            const auto outputs = static_cast<size_t>(self.num_outputs());
            const size_t rows = scores.size() / outputs;
            return ArrayOf(std::move(scores), {rows, outputs});
          },
          nb::arg("features"), "Log-likelihoods of frames.");
  nb::class_<ModelFile>(m, "ModelFile", "A model file as values.")
      .def(nb::init<>())
      .def_static("read", &ModelFile::Read, nb::arg("file"), nb::call_guard<WithoutLock>(), "Reads one.")
      .def("write", &ModelFile::Write, nb::arg("file"), nb::call_guard<WithoutLock>(), "Writes it whole.")
      .def("take_description", &ModelFile::TakeDescription, nb::arg("model"), nb::call_guard<WithoutLock>(),
           "hmm and features of another model.")
      .def("layers", &Layers, "(name, type, inputs, outputs, options) of each.")
      .def("num_outputs", &ModelFile::NumOutputs, "Outputs of the network.")
      .def("take_tensors", &TakeTensors, nb::sig("def take_tensors(self) -> list[tuple[str, bool, typing.Any]]"),
           "(name, trained, values) of each, which the file then lacks.")
      .def("add_tensor", &AddTensor, nb::arg("name"), nb::arg("values"), "One more tensor.")
      .def_rw("network", &ModelFile::network)
      .def_rw("feature_dim", &ModelFile::feature_dim)
      .def_rw("left_context", &ModelFile::left_context)
      .def_rw("right_context", &ModelFile::right_context)
      .def_rw("frames_per_forward", &ModelFile::frames_per_forward)
      .def_rw("first_frame_offset", &ModelFile::first_frame_offset)
      .def_rw("frame_subsampling", &ModelFile::frame_subsampling)
      .def_rw("features", &ModelFile::features)
      .def_rw("hmm", &ModelFile::hmm)
      .def_rw("log_priors", &ModelFile::log_priors)
      .def_rw("descriptions", &ModelFile::descriptions);
}

}  // namespace antiphon::python
