#include <antiphon/front_end.h>
#include <antiphon/tables.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings.h"

namespace antiphon::python {
namespace {

nb::object ArrayOfValue(TableValue& value) {
  switch (value.kind) {
    case TableKind::kMatrix:
      return nb::cast(
          ArrayOf(std::move(value.values), {static_cast<size_t>(value.rows), static_cast<size_t>(value.cols)}));
    case TableKind::kVector: {
      const size_t size = value.values.size();
      return nb::cast(ArrayOf(std::move(value.values), {size}));
    }
    case TableKind::kIntegers:
      break;
  }
  const size_t size = value.integers.size();
  return nb::cast(ArrayOf(std::move(value.integers), {size}));
}

constexpr size_t kManySamples = 1 << 20;

using Reader = OneAtATime<TableReader>;

nb::object Next(Reader& reader) {
  auto entry = reader.Use([](TableReader& table) -> std::optional<std::pair<std::string, TableValue>> {
    if (!table.Next()) return std::nullopt;
    return std::pair(table.key(), std::move(table.value()));
  });
  if (!entry) throw nb::stop_iteration();
  return nb::make_tuple(entry->first, ArrayOfValue(entry->second));
}

}  // namespace

void BindFeatures(nb::module_& m) {
  nb::class_<Reader>(m, "TableReader", "Walks over a Kaldi table.")
      .def(nb::init<const std::string&>(), nb::arg("table"), nb::call_guard<WithoutLock>())
      .def(
          "__iter__", [](nb::handle self) { return self; }, nb::sig("def __iter__(self) -> TableReader"))
      .def("__next__", &Next, nb::sig("def __next__(self) -> tuple[str, typing.Any]"));
  nb::class_<TableSettings>(m, "TableSettings", "How a table is written.")
      .def(nb::init<>())
      .def_rw("text", &TableSettings::text)
      .def_rw("script", &TableSettings::script)
      .def_rw("coding", &TableSettings::coding);
  nb::class_<TableWriter>(m, "TableWriter", "Writes a Kaldi table.")
      .def(nb::init<const std::string&, const TableSettings&>(), nb::arg("ark"), nb::arg("settings"),
           nb::call_guard<WithoutLock>())
      .def(
          "write_matrix",
          [](TableWriter& self, const std::string& key, Rows<float> values) {
            Unlocked([&] { self.WriteMatrix(key, SpanOf(values), static_cast<int64_t>(values.shape(1))); });
          },
          nb::arg("key"), nb::arg("values"), "One matrix.")
      .def(
          "write_vector",
          [](TableWriter& self, const std::string& key, Vector<float> values) {
            Unlocked([&] { self.WriteVector(key, SpanOf(values)); });
          },
          nb::arg("key"), nb::arg("values"), "One vector.")
      .def(
          "write_integers",
          [](TableWriter& self, const std::string& key, Vector<int32_t> values) {
            Unlocked([&] { self.WriteIntegers(key, SpanOf(values)); });
          },
          nb::arg("key"), nb::arg("values"), "One list of whole numbers.")
      .def("close", &TableWriter::Close, nb::call_guard<WithoutLock>(), "Puts the finished files in place.");
  nb::class_<FrontEnd>(m, "FrontEnd", "As antiphon.FrontEnd.")
      .def(nb::init<const std::string&>(), nb::arg("options"), nb::call_guard<WithoutLock>())
      .def_static("standard", &FrontEnd::Standard, nb::arg("kind"), nb::arg("rate"), nb::arg("options"),
                  nb::call_guard<WithoutLock>(), "Kaldi's defaults of one kind.")
      .def_prop_ro("dim", &FrontEnd::dim, "Values per frame.")
      .def_prop_ro("rate", &FrontEnd::sample_rate_hz, "Hz.")
      .def_prop_ro("frame_shift", &FrontEnd::frame_shift_s, "Seconds.")
      .def_prop_ro("options", &FrontEnd::options, "All options, as TOML.")
      .def(
          "compute",
          [](const FrontEnd& self, Vector<float> samples, int rate, const std::string& utt_id) {
            auto frames = Interruptible([&](const CancelToken&) { return self.Compute(SpanOf(samples), rate, utt_id); },
                                        /*takes_long=*/samples.size() > kManySamples);
            const auto dim = static_cast<size_t>(self.dim());
            const size_t rows = frames.size() / dim;
            return ArrayOf(std::move(frames), {rows, dim});
          },
          nb::arg("samples"), nb::arg("rate"), nb::arg("utt_id"), "Frames of one utterance.");
}

}  // namespace antiphon::python
