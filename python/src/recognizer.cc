#include <antiphon/recognizer.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

using Words = std::vector<std::tuple<std::string, double, double, double>>;
using Result = std::tuple<std::string, Words, std::string>;

Result ToTuple(Recognition recognition) {
  Words words;
  for (RecognizedWord& word : recognition.words) {
    words.emplace_back(std::move(word.word), word.start_s, word.end_s, word.confidence);
  }
  return {std::move(recognition.text), std::move(words), std::move(recognition.remark)};
}

}  // namespace

void BindRecognizer(nb::module_& m) {
  nb::class_<RecognizerSettings>(m, "RecognizerSettings", "As antiphon.Recognizer takes them.")
      .def(nb::init<>())
      .def_rw("beam", &RecognizerSettings::beam)
      .def_rw("acoustic_scale", &RecognizerSettings::acoustic_scale)
      .def_rw("lm_weight", &RecognizerSettings::lm_weight)
      .def_rw("word_penalty", &RecognizerSettings::word_penalty)
      .def_rw("normalize_variance", &RecognizerSettings::normalize_variance)
      .def_rw("rescore_arpa", &RecognizerSettings::rescore_arpa)
      .def_rw("graph_arpa", &RecognizerSettings::graph_arpa)
      .def_rw("adapt_graph", &RecognizerSettings::adapt_graph)
      .def_rw("adapt_passes", &RecognizerSettings::adapt_passes);
  nb::class_<Recognizer>(m, "Recognizer", "As antiphon.Recognizer.")
      .def(nb::init<const std::string&, const std::string&, const RecognizerSettings&>(), nb::arg("model"),
           nb::arg("graph"), nb::arg("settings"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "recognize",
          [](const Recognizer& self, Vector<float> samples, int rate) {
            return ToTuple(Unlocked([&] { return self.Recognize(SpanOf(samples), rate); }));
          },
          nb::arg("samples"), nb::arg("rate"), "Text, (word, start, end, confidence) of each, remark.")
      .def(
          "recognize_file",
          [](const Recognizer& self, const std::string& path) {
            return ToTuple(Unlocked([&] { return self.RecognizeFile(path); }));
          },
          nb::arg("path"), "As recognize.")
      .def("vocabulary", &Recognizer::Vocabulary, "The words that it can recognise.");
}

}  // namespace antiphon::python
