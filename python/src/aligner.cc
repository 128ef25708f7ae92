#include <antiphon/aligner.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"

namespace antiphon::python {
namespace {

using Phones = std::vector<std::tuple<std::string, double, double>>;
using Words = std::vector<std::tuple<std::string, double, double, int, int>>;
using Unaligned = std::vector<std::tuple<double, double, std::vector<std::string>>>;
using State = std::tuple<Words, Phones, double, double, bool, Unaligned, std::vector<std::string>>;  // for pickle

State StateOf(const AlignedSpeech& speech) {
  State state{{}, {}, speech.duration_s, speech.log_likelihood, speech.retried, {}, speech.unknown_words};
  for (const AlignedWord& w : speech.words) {
    std::get<Words>(state).emplace_back(w.word, w.start_s, w.end_s, w.first_phone, w.num_phones);
  }
  for (const AlignedPhone& p : speech.phones) std::get<Phones>(state).emplace_back(p.phone, p.start_s, p.end_s);
  for (const UnalignedPart& u : speech.unaligned) std::get<Unaligned>(state).emplace_back(u.start_s, u.end_s, u.words);
  return state;
}

void SetState(AlignedSpeech& speech, const State& state) {
  new (&speech) AlignedSpeech;
  const auto& [words, phones, duration, log_likelihood, retried, unaligned, unknown] = state;
  for (const auto& [word, start, end, first, count] : words) speech.words.push_back({word, start, end, first, count});
  for (const auto& [phone, start, end] : phones) speech.phones.push_back({phone, start, end});
  for (const auto& [start, end, lost] : unaligned) speech.unaligned.push_back({start, end, lost});
  speech.duration_s = duration;
  speech.log_likelihood = log_likelihood;
  speech.retried = retried;
  speech.unknown_words = unknown;
}

}  // namespace

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
  nb::class_<UnalignedPart>(m, "UnalignedPart", "Where text and audio do not agree.")
      .def_ro("start", &UnalignedPart::start_s)
      .def_ro("end", &UnalignedPart::end_s)
      .def_ro("words", &UnalignedPart::words);
  nb::class_<AlignedSpeech>(m, "AlignedSpeech", "As antiphon.Alignment has it.")
      .def_ro("words", &AlignedSpeech::words)
      .def_ro("phones", &AlignedSpeech::phones)
      .def_ro("duration", &AlignedSpeech::duration_s)
      .def_ro("log_likelihood", &AlignedSpeech::log_likelihood)
      .def_ro("retried", &AlignedSpeech::retried)
      .def_ro("unaligned", &AlignedSpeech::unaligned)
      .def_ro("unknown_words", &AlignedSpeech::unknown_words)
      .def("__getstate__", &StateOf)
      .def("__setstate__", &SetState)
      .def(
          "textgrid", [](const AlignedSpeech& self) { return ToTextGrid(self); }, "Praat's file.")
      .def(
          "ctm",
          [](const AlignedSpeech& self, const std::string& utterance, bool phones, const std::string& channel) {
            return ToCtm(self, utterance, phones ? CtmLabels::kPhones : CtmLabels::kWords, channel);
          },
          nb::arg("utterance"), nb::arg("phones"), nb::arg("channel"), "Lines of words, or of phones.")
      .def(
          "json", [](const AlignedSpeech& self) { return ToJson(self); }, "All of it.");
  nb::class_<AlignerSettings>(m, "AlignerSettings", "As antiphon.Aligner takes them.")
      .def(nb::init<>())
      .def_rw("beam", &AlignerSettings::beam)
      .def_rw("retry_beam", &AlignerSettings::retry_beam)
      .def_rw("map_unknown_words", &AlignerSettings::map_unknown_words)
      .def_rw("adapt", &AlignerSettings::adapt)
      .def_rw("precision", &AlignerSettings::precision)
      .def_rw("threads", &AlignerSettings::threads)
      .def_rw("options", &AlignerSettings::options);
  nb::class_<Aligner>(m, "Aligner", "As antiphon.Aligner.")
      .def(nb::init<const std::string&, const std::string&, const AlignerSettings&>(), nb::arg("model"),
           nb::arg("lexicon"), nb::arg("settings"), nb::call_guard<WithoutLock>())
      .def(
          "align",
          [](const Aligner& self, Vector<float> samples, int rate, const std::string& text, const CancelToken& given) {
            return Interruptible(
                [&](const CancelToken& cancel) { return self.Align(SpanOf(samples), rate, text, {.cancel = cancel}); },
                /*takes_long=*/true, given);
          },
          nb::arg("samples"), nb::arg("rate"), nb::arg("text"), nb::arg("cancel"), "AlignedSpeech.")
      .def(
          "align_file",
          [](const Aligner& self, const std::string& path, int channel, const std::string& text,
             const CancelToken& given) {
            return Interruptible(
                [&](const CancelToken& cancel) {
                  return self.AlignFile(path, text, {.channel = channel, .cancel = cancel});
                },
                /*takes_long=*/true, given);
          },
          nb::arg("path"), nb::arg("channel"), nb::arg("text"), nb::arg("cancel"), "AlignedSpeech.");
}

}  // namespace antiphon::python
