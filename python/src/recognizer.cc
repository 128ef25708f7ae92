#include <antiphon/recognizer.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <span>
#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

using Words = std::vector<std::tuple<std::string, double, double, double>>;
using Hypotheses = std::vector<std::tuple<std::string, double, double, double>>;
using Result = std::tuple<std::string, Words, Hypotheses, std::string, std::string, Words, std::vector<std::string>>;
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
  for (const Hypothesis& h : recognition.nbest) hypotheses.emplace_back(h.text, h.cost, h.graph_cost, h.acoustic_cost);
  return {recognition.text,    ToTuples(recognition.words),         std::move(hypotheses),    recognition.remark,
          recognition.written, ToTuples(recognition.written_words), recognition.audio_remarks};
}

std::vector<RecognizedWord> WordsOf(const Words& words) {
  std::vector<RecognizedWord> recognized;
  for (const auto& [word, start, end, confidence] : words) recognized.push_back({word, start, end, confidence});
  return recognized;
}

Recognition RecognitionOf(const Result& result) {
  const auto& [text, words, hypotheses, remark, written, written_words, audio_remarks] = result;
  Recognition recognition{text, WordsOf(words), {}, remark, written, WordsOf(written_words), audio_remarks};
  for (const auto& [said, cost, graph, acoustic] : hypotheses)
    recognition.nbest.push_back({said, cost, graph, acoustic});
  return recognition;
}

StreamEvent EventOf(const Event& event) {
  const auto& [final, start, end, result] = event;
  return {RecognitionOf(result), final, start, end};
}

std::vector<Event> ToTuples(const std::vector<StreamEvent>& events) {
  std::vector<Event> tuples;
  for (const StreamEvent& event : events) tuples.emplace_back(event.final, event.start_s, event.end_s, ToTuple(event));
  return tuples;
}

// One call at its own settings, which Ctrl-C ends, and what `progress`, a function or None, raises. The memory is
// changed once all went well: other threads may use it meanwhile.
template <class F>
Result Recognized(RecognizeSettings settings, SpeakerMemory* memory, const nb::object& progress, F&& call) {
  SpeakerMemory remembered;
  if (memory != nullptr) {
    remembered = *memory;
    settings.memory = &remembered;
  }
  const CancelToken given = settings.cancel;
  const auto cancellable = [&](const CancelToken& cancel) {
    settings.cancel = cancel;
    return call(settings);
  };
  const auto attended = [&](Call& attending) {
    settings.progress = [&](double done_s) { attending.InPython([&] { progress(done_s); }); };
    return cancellable(attending.cancel);
  };
  const Recognition found =
      progress.is_none() ? Interruptible(cancellable, /*takes_long=*/true, given) : UntilDone(attended, given);
  if (memory != nullptr) *memory = remembered;
  return ToTuple(found);
}

Phrases ToPairs(const std::vector<Hotword>& hotwords) {
  Phrases phrases;
  for (const Hotword& hotword : hotwords) phrases.emplace_back(hotword.phrase, hotword.bonus);
  return phrases;
}

std::vector<Hotword> ToHotwords(const Phrases& phrases) {
  std::vector<Hotword> hotwords;
  for (const auto& [phrase, bonus] : phrases) hotwords.push_back({phrase, bonus});
  return hotwords;
}

// "<antiphon.SpeakerMemory 'ann'>".
nb::str Shown(const char* type, const std::string& speaker) {
  return nb::str("<antiphon.{} {!r}>").format(type, nb::cast(speaker));
}

// By the package's own check: nanobind would tell what it tried.
std::string CheckedSpeaker(const nb::object& speaker) {
  return nb::cast<std::string>(nb::module_::import_("antiphon._arguments").attr("checked_text")(speaker, "speaker"));
}

void BindSpeakers(nb::module_& m) {
  nb::class_<SpeakerProfile>(m, "SpeakerProfile",
                             "What a model was told of one person by `antiphon adapt --speaker`; "
                             "Recognizer.load_profile reads one.")
      .def("__repr__", [](const SpeakerProfile& self) { return Shown("SpeakerProfile", self.speaker()); })
      .def_prop_ro("speaker", &SpeakerProfile::speaker, "As --speaker said.");
  nb::class_<SpeakerMemory>(
      m, "SpeakerMemory",
      "What was heard of one person before. It grows with each recognition that is given it, one "
      "at a time: of two at once the later one counts. Recognizer.save_memory keeps it in a file.")
      .def(
          "__init__",
          [](SpeakerMemory* self, const nb::object& speaker) { new (self) SpeakerMemory(CheckedSpeaker(speaker)); },
          nb::arg("speaker") = "", nb::sig("def __init__(self, speaker: str = '') -> None"),
          "Nothing is known; `speaker` is kept in files.")
      .def("__repr__", [](const SpeakerMemory& self) { return Shown("SpeakerMemory", self.speaker()); })
      .def_prop_ro("speaker", &SpeakerMemory::speaker, "Whose it is; \"\" if nobody said.");
}

void BindCallSettings(nb::module_& m) {
  nb::class_<RecognizeSettings>(m, "RecognizeSettings", "As Recognizer.recognize takes them.")
      .def(nb::init<>())
      .def_rw("channel", &RecognizeSettings::channel)
      .def_rw("nbest", &RecognizeSettings::nbest)
      .def_rw("profile", &RecognizeSettings::profile)
      .def_rw("cancel", &RecognizeSettings::cancel);
  nb::class_<StreamSettings>(m, "StreamSettings", "As Recognizer.stream takes them.")
      .def(nb::init<>())
      .def_rw("partial", &StreamSettings::partial)
      .def_rw("step_frames", &StreamSettings::step_frames)
      .def_rw("endpoint_silence", &StreamSettings::endpoint_silence_s)
      .def_rw("max_utterance", &StreamSettings::max_utterance_s)
      .def_rw("learn_speaker", &StreamSettings::learn_speaker)
      .def_rw("cmvn_window", &StreamSettings::cmvn_window)
      .def_rw("cmvn_min_window", &StreamSettings::cmvn_min_window)
      .def_rw("normalize_variance", &StreamSettings::normalize_variance)
      .def_prop_rw(
          "hotwords", [](const StreamSettings& self) { return ToPairs(self.hotwords); },
          [](StreamSettings& self, const Phrases& phrases) { self.hotwords = ToHotwords(phrases); })
      .def_rw("word_list", &StreamSettings::word_list)
      .def_rw("nbest", &StreamSettings::nbest)
      .def_rw("profile", &StreamSettings::profile)
      .def_rw("memory", &StreamSettings::memory)
      .def_rw("cancel", &StreamSettings::cancel);
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
          "hotwords", [](const RecognizerSettings& self) { return ToPairs(self.hotwords); },
          [](RecognizerSettings& self, const Phrases& phrases) { self.hotwords = ToHotwords(phrases); })
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
      .def_rw("profiles", &RecognizerSettings::profiles)
      .def_rw("threads", &RecognizerSettings::threads)
      .def_rw("normalize_variance", &RecognizerSettings::normalize_variance)
      .def_rw("adapt_graph", &RecognizerSettings::adapt_graph)
      .def_rw("adapt_passes", &RecognizerSettings::adapt_passes)
      .def_rw("options", &RecognizerSettings::options);
}

}  // namespace

void BindRecognizer(nb::module_& m) {
  BindSpeakers(m);
  BindSettings(m);
  BindCallSettings(m);
  m.def(
      "recognition_json", [](const Result& result) { return ToJson(RecognitionOf(result)); }, nb::arg("result"),
      "Of a result as of recognize.");
  m.def(
      "event_json", [](const Event& event) { return ToJson(EventOf(event)); }, nb::arg("event"),
      "Of an event as of accept.");
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
      .def(
          "memory", [](const Stream& self) { return self.memory(); }, "What is known of the speaker.")
      .def("audio_remarks", &Stream::AudioRemarks, "What is wrong with the sound so far.");
  nb::class_<Recognizer>(m, "Recognizer", "As antiphon.Recognizer.")
      .def(nb::init<const std::string&, const std::string&, const RecognizerSettings&>(), nb::arg("model"),
           nb::arg("graph"), nb::arg("settings"), nb::call_guard<WithoutLock>())
      .def(
          "recognize",
          [](const Recognizer& self, Vector<float> samples, int rate, const RecognizeSettings& settings,
             SpeakerMemory* memory, const nb::object& progress) {
            return Recognized(settings, memory, progress, [&](const RecognizeSettings& of_call) {
              return self.Recognize(SpanOf(samples), rate, of_call);
            });
          },
          nb::arg("samples"), nb::arg("rate"), nb::arg("settings"), nb::arg("memory").none(),
          nb::arg("progress").none(), "(text, words, hypotheses, remark, written, written_words, audio_remarks).")
      .def(
          "recognize_file",
          [](const Recognizer& self, const std::string& path, const RecognizeSettings& settings, SpeakerMemory* memory,
             const nb::object& progress) {
            return Recognized(settings, memory, progress,
                              [&](const RecognizeSettings& of_call) { return self.RecognizeFile(path, of_call); });
          },
          nb::arg("path"), nb::arg("settings"), nb::arg("memory").none(), nb::arg("progress").none(), "As recognize.")
      .def(
          "recognize_bytes",
          [](const Recognizer& self, const nb::bytes& file, const RecognizeSettings& settings, SpeakerMemory* memory,
             const nb::object& progress) {
            const std::span bytes(static_cast<const std::byte*>(file.data()), file.size());
            return Recognized(settings, memory, progress,
                              [&](const RecognizeSettings& of_call) { return self.RecognizeBytes(bytes, of_call); });
          },
          nb::arg("file"), nb::arg("settings"), nb::arg("memory").none(), nb::arg("progress").none(), "As recognize.")
      .def("stream", &Recognizer::NewStream, nb::arg("rate"), nb::arg("settings"), nb::call_guard<WithoutLock>(),
           "A Stream.")
      .def("load_profile", &Recognizer::LoadProfile, nb::arg("file"), nb::call_guard<WithoutLock>(),
           "A SpeakerProfile.")
      .def("load_memory", &Recognizer::LoadMemory, nb::arg("file"), nb::call_guard<WithoutLock>(), "A SpeakerMemory.")
      .def(
          "save_memory",
          [](const Recognizer& self, const SpeakerMemory& memory, const std::string& file) {
            const SpeakerMemory as_it_is = memory;  // under the interpreter's lock, as it is changed
            Unlocked([&] { self.SaveMemory(as_it_is, file); });
          },
          nb::arg("memory"), nb::arg("file"), "Writes one.")
      .def("uses_memory", &Recognizer::UsesMemory, "Whether a memory means something to the model.")
      .def("sample_rate", &Recognizer::sample_rate_hz, "Hz of the model.")
      .def("vocabulary", &Recognizer::Vocabulary, "The words that it can recognise.");
}

}  // namespace antiphon::python
