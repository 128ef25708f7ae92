#include <antiphon/aligner.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "bindings.h"

namespace antiphon::python {

void BindAligner(nb::module_& m) {
  nb::class_<AlignedPhone>(m, "AlignedPhone", "A phone, or a pause, with its times.")
      .def_ro("phone", &AlignedPhone::phone)
      .def_ro("start", &AlignedPhone::start_s)
      .def_ro("end", &AlignedPhone::end_s);
  nb::class_<AlignedWord>(m, "AlignedWord", "A word with its times and its place among the phones.")
      .def_ro("word", &AlignedWord::word)
      .def_ro("start", &AlignedWord::start_s)
      .def_ro("end", &AlignedWord::end_s)
      .def_ro("first_phone", &AlignedWord::first_phone)
      .def_ro("num_phones", &AlignedWord::num_phones);
  nb::class_<AlignedSpeech>(m, "AlignedSpeech", "As antiphon.Alignment has it.")
      .def_ro("words", &AlignedSpeech::words)
      .def_ro("phones", &AlignedSpeech::phones)
      .def_ro("duration", &AlignedSpeech::duration_s)
      .def_ro("log_likelihood", &AlignedSpeech::log_likelihood)
      .def_ro("unknown_words", &AlignedSpeech::unknown_words)
      .def(
          "textgrid", [](const AlignedSpeech& self) { return ToTextGrid(self); }, "Praat's file.")
      .def(
          "ctm", [](const AlignedSpeech& self, const std::string& utterance) { return ToCtm(self, utterance); },
          nb::arg("utterance"), "Lines of words.");
  nb::class_<Aligner>(m, "Aligner", "As antiphon.Aligner.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("model"), nb::arg("lexicon"),
           nb::call_guard<nb::gil_scoped_release>())
      .def(
          "align",
          [](const Aligner& self, Vector<float> samples, int rate, const std::string& text) {
            return Unlocked([&] { return self.Align(SpanOf(samples), rate, text); });
          },
          nb::arg("samples"), nb::arg("rate"), nb::arg("text"), "AlignedSpeech.")
      .def(
          "align_file",
          [](const Aligner& self, const std::string& path, const std::string& text) {
            return Unlocked([&] { return self.AlignFile(path, text); });
          },
          nb::arg("path"), nb::arg("text"), "AlignedSpeech.");
}

}  // namespace antiphon::python
