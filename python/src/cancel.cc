#include <antiphon/cancel.h>

#include "bindings.h"

namespace antiphon::python {

void BindCancel(nb::module_& m) {
  nb::class_<CancelToken>(
      m, "CancelToken",
      "A way to stop long calls from another thread or from a callback. Calls that were given it as "
      "`cancel` end soon after `cancel()` with Cancelled, and so do later ones. Ctrl-C does not "
      "touch it.")
      .def(nb::init<>(), "Nobody asked to stop yet.")
      .def("__repr__",
           [](const CancelToken& self) {
             return nb::str("<antiphon.CancelToken, {}>").format(self.cancelled() ? "cancelled" : "not cancelled");
           })
      .def(
          "cancel", [](const CancelToken& self) { self.Cancel(); },
          "Asks to stop; there is no way back. Any thread may, and a signal's handler.")
      .def_prop_ro("cancelled", &CancelToken::cancelled, "Whether somebody asked to stop.");
}

}  // namespace antiphon::python
