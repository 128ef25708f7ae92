#include <antiphon/g2p.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "bindings.h"

namespace antiphon::python {

void BindG2p(nb::module_& m) {
  nb::class_<PronunciationGuess>(m, "PronunciationGuess", "Phones and their probability.")
      .def_ro("phones", &PronunciationGuess::phones)
      .def_ro("probability", &PronunciationGuess::probability);
  nb::class_<G2p>(m, "G2p", "As antiphon.G2p.")
      .def(nb::init<const std::string&>(), nb::arg("model"), nb::call_guard<WithoutLock>())
      .def(
          "pronounce",
          [](const G2p& self, const std::string& word, int nbest, double least_probability) {
            return Unlocked([&] { return self.Pronounce(word, {nbest, least_probability}); });
          },
          nb::arg("word"), nb::arg("nbest"), nb::arg("least_probability"), "List of PronunciationGuess.")
      .def_prop_ro("letters", &G2p::Letters)
      .def_prop_ro("phones", &G2p::Phones);
  m.def(
      "train_g2p",
      [](const std::string& lexicon, const std::string& out, const std::string& options, int threads,
         const CancelToken& given) {
        Interruptible([&](const CancelToken&) { TrainG2p(lexicon, out, options, threads); }, /*takes_long=*/true,
                      given);
      },
      nb::arg("lexicon"), nb::arg("out"), nb::arg("options"), nb::arg("threads"), nb::arg("cancel"),
      "As antiphon.train_g2p.");
}

}  // namespace antiphon::python
