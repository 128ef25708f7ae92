#include <antiphon/error.h>

#include <exception>

#include "bindings.h"

namespace antiphon::python {
namespace {

// antiphon._errors has a class for each kind.
void Translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const nb::builtin_exception&) {
    throw;
  } catch (const std::exception& e) {
    const nb::object errors = nb::module_::import_("antiphon._errors");
    const nb::object error = errors.attr("made")(NameOf(KindOf(e)), Readable(e.what()));
    PyErr_SetObject(error.type().ptr(), error.ptr());
  }
}

}  // namespace
}  // namespace antiphon::python

NB_MODULE(_core, m) {
  using namespace antiphon::python;
  m.doc() = "What the package antiphon is written on; use the package.";
  m.attr("version") = ANTIPHON_VERSION;
  nb::set_leak_warnings(false);  // a daemon thread may hold some to the end
  nb::register_exception_translator(Translate);
  BindCancel(m);
  BindRecognizer(m);
  BindAligner(m);
  BindCorpora(m);
  BindFeatures(m);
  BindFrameStore(m);
  BindModel(m);
  BindG2p(m);
  BindTraining(m);
  BindImprovement(m);
  BindLog(m);
}
