#include <antiphon/recognizer.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

using Words = std::vector<std::tuple<std::string, double, double, double>>;
using Hypotheses = std::vector<std::tuple<std::string, double>>;
using Result = std::tuple<std::string, Words, Hypotheses, std::string, std::string, Words>;
using Event = std::tuple<bool, double, double, Result>;
using Phrases = std::vector<std::pair<std::string, double>>;
using AddedWords = std::vector<std::tuple<std::string, std::string, double>>;  // word, phones, weight

Words ToTuples(const std::vector<RecognizedWord>& recognized) {
  Words words;
  for (const RecognizedWord& word : recognized) {
    words.emplace_back(word.word, word.start_s, word.end_s, word.confidence);
  }
  return words;
}

Result ToTuple(const Recognition& recognition) {
  Hypotheses hypotheses;
  for (const Hypothesis& hypothesis : recognition.nbest) hypotheses.emplace_back(hypothesis.text, hypothesis.cost);
  return {recognition.text,   ToTuples(recognition.words), std::move(hypotheses),
          recognition.remark, recognition.written,         ToTuples(recognition.written_words)};
}

std::vector<Event> ToTuples(const std::vector<StreamEvent>& events) {
  std::vector<Event> tuples;
  for (const StreamEvent& event : events) tuples.emplace_back(event.final, event.start_s, event.end_s, ToTuple(event));
  return tuples;
}

Result UnlessInterrupted(RecognizeSettings settings, const std::function<Recognition(const RecognizeSettings&)>& call) {
  return ToTuple(Interruptible([&](const CancelToken& cancel) {
    settings.cancel = cancel;
    return call(settings);
  }));
}

void BindSettings(nb::module_& m) {
  nb::class_<RecognizerSettings>(m, "RecognizerSettings", "As antiphon.Recognizer takes them.")
      .def(nb::init<>())
      .def_rw("beam", &RecognizerSettings::beam)
      .def_rw("lattice_beam", &RecognizerSettings::lattice_beam)
      .def_rw("max_active", &RecognizerSettings::max_active)
      .def_rw("acoustic_scale", &RecognizerSettings::acoustic_scale)
      .def_rw("weights", &RecognizerSettings::weights)
      .def_rw("lm_weight", &RecognizerSettings::lm_weight)
      .def_rw("word_penalty", &RecognizerSettings::word_penalty)
      .def_rw("nbest", &RecognizerSettings::nbest)
      .def_rw("confidences", &RecognizerSettings::confidences)
      .def_rw("rescore_arpa", &RecognizerSettings::rescore_arpa)
      .def_rw("graph_arpa", &RecognizerSettings::graph_arpa)
      .def_rw("word_list", &RecognizerSettings::word_list)
      .def_prop_rw(
          "hotwords",
          [](const RecognizerSettings& self) {
            Phrases phrases;
            for (const Hotword& hotword : self.hotwords) phrases.emplace_back(hotword.phrase, hotword.bonus);
            return phrases;
          },
          [](RecognizerSettings& self, const Phrases& phrases) {
            self.hotwords.clear();
            for (const auto& [phrase, bonus] : phrases) self.hotwords.push_back({phrase, bonus});
          })
      .def_prop_rw(
          "add_words",
          [](const RecognizerSettings& self) {
            AddedWords words;
            for (const AddedWord& added : self.add_words) words.emplace_back(added.word, added.phones, added.weight);
            return words;
          },
          [](RecognizerSettings& self, const AddedWords& words) {
            self.add_words.clear();
            for (const auto& [word, phones, weight] : words) self.add_words.push_back({word, phones, weight});
          })
      .def_rw("g2p", &RecognizerSettings::g2p)
      .def_rw("lm", &RecognizerSettings::lm)
      .def_rw("vad", &RecognizerSettings::vad)
      .def_rw("written", &RecognizerSettings::written)
      .def_rw("precision", &RecognizerSettings::precision)
      .def_rw("threads", &RecognizerSettings::threads)
      .def_rw("normalize_variance", &RecognizerSettings::normalize_variance)
      .def_rw("adapt_graph", &RecognizerSettings::adapt_graph)
      .def_rw("adapt_passes", &RecognizerSettings::adapt_passes)
      .def_rw("options", &RecognizerSettings::options);
}

}  // namespace

void BindRecognizer(nb::module_& m) {
  BindSettings(m);
  nb::class_<Stream>(m, "Stream", "As antiphon.Stream.")
      .def(
          "accept",
          [](Stream& self, Vector<float> samples) {
            return ToTuples(Unlocked([&] { return self.Accept(SpanOf(samples)); }));
          },
          nb::arg("samples"), "(final, start, end, result as of recognize) of each event.")
      .def(
          "end", [](Stream& self) { return ToTuples(Unlocked([&] { return self.End(); })); }, "As accept.")
      .def("ended", &Stream::ended, "Whether end was called.")
      .def("audio_remarks", &Stream::AudioRemarks, "What is wrong with the sound so far.");
  nb::class_<Recognizer>(m, "Recognizer", "As antiphon.Recognizer.")
      .def(nb::init<const std::string&, const std::string&, const RecognizerSettings&>(), nb::arg("model"),
           nb::arg("graph"), nb::arg("settings"), nb::call_guard<WithoutLock>())
      .def(
          "recognize",
          [](const Recognizer& self, Vector<float> samples, int rate, int nbest) {
            return UnlessInterrupted({.nbest = nbest}, [&](const RecognizeSettings& settings) {
              return self.Recognize(SpanOf(samples), rate, settings);
            });
          },
          nb::arg("samples"), nb::arg("rate"), nb::arg("nbest"),
          "(text, words, hypotheses, remark, written, written_words).")
      .def(
          "recognize_file",
          [](const Recognizer& self, const std::string& path, int channel, int nbest) {
            return UnlessInterrupted({.channel = channel, .nbest = nbest}, [&](const RecognizeSettings& settings) {
              return self.RecognizeFile(path, settings);
            });
          },
          nb::arg("path"), nb::arg("channel"), nb::arg("nbest"), "As recognize.")
      .def(
          "recognize_bytes",
          [](const Recognizer& self, const nb::bytes& file, int channel, int nbest) {
            const std::span bytes(static_cast<const std::byte*>(file.data()), file.size());
            return UnlessInterrupted({.channel = channel, .nbest = nbest}, [&](const RecognizeSettings& settings) {
              return self.RecognizeBytes(bytes, settings);
            });
          },
          nb::arg("file"), nb::arg("channel"), nb::arg("nbest"), "As recognize.")
      .def(
          "stream",
          [](const Recognizer& self, int rate, bool partial) {
            StreamSettings settings;
            settings.partial = partial;
            return Unlocked([&] { return self.NewStream(rate, settings); });
          },
          nb::arg("rate"), nb::arg("partial"), "A Stream.")
      .def("sample_rate", &Recognizer::sample_rate_hz, "Hz of the model.")
      .def("vocabulary", &Recognizer::Vocabulary, "The words that it can recognise.");
}

}  // namespace antiphon::python
