#include <antiphon/corpus_aligner.h>
#include <antiphon/corpus_decoder.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings.h"

namespace antiphon::python {
namespace {

using Errors = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, double, double, double>;
using Weights = std::tuple<double, double, double, double, std::string>;
using Remarks = std::vector<std::tuple<std::string, std::string, bool>>;
using Words = std::vector<std::tuple<std::string, int64_t>>;

std::optional<Errors> ToTuple(const std::optional<WordErrors>& e) {
  if (!e) return std::nullopt;
  return Errors{e->utterances, e->wrong_utterances, e->words,        e->substitutions, e->deletions, e->insertions,
                e->rate,       e->interval_low,     e->interval_high};
}

std::optional<Weights> ToTuple(const std::optional<TunedWeights>& w) {
  if (!w) return std::nullopt;
  return Weights{w->lm_weight, w->word_penalty, w->risk_scale, w->error_rate, w->file};
}

Remarks ToTuples(const std::vector<CorpusRemark>& all) {
  Remarks remarks;
  for (const CorpusRemark& r : all) remarks.emplace_back(r.where, r.what, r.fatal);
  return remarks;
}

Words ToTuples(const std::vector<UnknownWord>& all) {
  Words words;
  for (const UnknownWord& w : all) words.emplace_back(w.word, w.count);
  return words;
}

template <class Settings, class Call>
auto Run(Settings settings, const CancelToken& given, Call&& call) {
  return Interruptible(
      [&](const CancelToken& cancel) {
        settings.cancel = cancel;
        return call(settings);
      },
      /*takes_long=*/true, given);
}

DecodingOutcome Decode(const CorpusDecoderSettings& settings, const CancelToken& given) {
  return Run(settings, given, [](const auto& s) { return CorpusDecoder(s).Run(); });
}
AlignmentOutcome Align(const CorpusAlignerSettings& settings, const CancelToken& given) {
  return Run(settings, given, [](const auto& s) { return CorpusAligner(s).Run(); });
}
CorpusCheck Check(const CorpusAlignerSettings& settings, const CancelToken& given) {
  return Run(settings, given, [](const auto& s) { return CorpusAligner(s).Check(); });
}

void BindDecoding(nb::module_& m) {
  nb::class_<CorpusDecoderSettings>(m, "CorpusDecoderSettings", "As antiphon.decode takes them.")
      .def(nb::init<>())
      .def_rw("model", &CorpusDecoderSettings::model)
      .def_rw("graph", &CorpusDecoderSettings::graph)
      .def_rw("data", &CorpusDecoderSettings::data)
      .def_rw("out", &CorpusDecoderSettings::out)
      .def_rw("weights", &CorpusDecoderSettings::weights)
      .def_rw("tune", &CorpusDecoderSettings::tune)
      .def_rw("config", &CorpusDecoderSettings::config)
      .def_rw("seed", &CorpusDecoderSettings::seed)
      .def_rw("threads", &CorpusDecoderSettings::threads);
  nb::class_<DecodingOutcome>(m, "DecodingOutcome", "As antiphon.decode gives it.")
      .def_ro("utterances", &DecodingOutcome::utterances)
      .def_ro("speech", &DecodingOutcome::speech_s)
      .def_ro("cpu_time", &DecodingOutcome::cpu_s)
      .def_ro("wall_time", &DecodingOutcome::wall_s)
      .def_ro("real_time_factor", &DecodingOutcome::real_time_factor)
      .def_ro("lm_weight", &DecodingOutcome::lm_weight)
      .def_ro("word_penalty", &DecodingOutcome::word_penalty)
      .def_ro("risk_scale", &DecodingOutcome::risk_scale)
      .def_ro("output_share", &DecodingOutcome::output_share)
      .def_ro("speaker_transforms", &DecodingOutcome::speaker_transforms)
      .def_prop_ro("errors", [](const DecodingOutcome& o) { return ToTuple(o.errors); })
      .def_prop_ro("tuned", [](const DecodingOutcome& o) { return ToTuple(o.tuned); })
      .def_ro("text_file", &DecodingOutcome::text_file)
      .def_ro("results_file", &DecodingOutcome::results_file)
      .def_ro("summary_file", &DecodingOutcome::summary_file)
      .def_ro("summary", &DecodingOutcome::summary);
  m.def("decode", &Decode, nb::arg("settings"), nb::arg("cancel"), "As antiphon.decode.");
}

void BindAlignment(nb::module_& m) {
  nb::class_<CorpusAlignerSettings>(m, "CorpusAlignerSettings", "As antiphon.align takes them.")
      .def(nb::init<>())
      .def_rw("data", &CorpusAlignerSettings::data)
      .def_rw("model", &CorpusAlignerSettings::model)
      .def_rw("lexicon", &CorpusAlignerSettings::lexicon)
      .def_rw("transcripts", &CorpusAlignerSettings::transcripts)
      .def_rw("g2p", &CorpusAlignerSettings::g2p)
      .def_rw("out", &CorpusAlignerSettings::out)
      .def_rw("config", &CorpusAlignerSettings::config)
      .def_rw("seed", &CorpusAlignerSettings::seed)
      .def_rw("threads", &CorpusAlignerSettings::threads);
  nb::class_<AlignmentOutcome>(m, "AlignmentOutcome", "As antiphon.align gives it.")
      .def_ro("utterances", &AlignmentOutcome::utterances)
      .def_ro("aligned", &AlignmentOutcome::aligned)
      .def_ro("frames", &AlignmentOutcome::frames)
      .def_ro("log_likelihood", &AlignmentOutcome::log_likelihood)
      .def_ro("time_step", &AlignmentOutcome::time_step_s)
      .def_ro("wall_time", &AlignmentOutcome::wall_s)
      .def_ro("partial", &AlignmentOutcome::partial)
      .def_prop_ro("left_out", [](const AlignmentOutcome& o) { return ToTuples(o.left_out); })
      .def_prop_ro("skipped", [](const AlignmentOutcome& o) { return ToTuples(o.skipped); })
      .def_prop_ro("suspicious", [](const AlignmentOutcome& o) { return ToTuples(o.suspicious); })
      .def_prop_ro("unknown_words", [](const AlignmentOutcome& o) { return ToTuples(o.unknown_words); })
      .def_ro("model_file", &AlignmentOutcome::model_file)
      .def_ro("words_file", &AlignmentOutcome::words_file)
      .def_ro("phones_file", &AlignmentOutcome::phones_file)
      .def_ro("report_file", &AlignmentOutcome::report_file)
      .def_ro("report", &AlignmentOutcome::report);
  nb::class_<CorpusCheck>(m, "CorpusCheck", "As antiphon.check_corpus gives it.")
      .def_ro("utterances", &CorpusCheck::utterances)
      .def_ro("speech", &CorpusCheck::speech_s)
      .def_prop_ro("problems", [](const CorpusCheck& c) { return ToTuples(c.problems); })
      .def_prop_ro("unknown_words", [](const CorpusCheck& c) { return ToTuples(c.unknown_words); })
      .def_ro("pronounced", &CorpusCheck::pronounced)
      .def_ro("text", &CorpusCheck::text);
  m.def("align", &Align, nb::arg("settings"), nb::arg("cancel"), "As antiphon.align.");
  m.def("check_corpus", &Check, nb::arg("settings"), nb::arg("cancel"), "As antiphon.check_corpus.");
}

}  // namespace

void BindCorpora(nb::module_& m) {
  BindDecoding(m);
  BindAlignment(m);
}

}  // namespace antiphon::python
