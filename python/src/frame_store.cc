#include <antiphon/frame_store.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "bindings.h"

namespace antiphon::python {
namespace {

// The arrays lie in the minibatch's own memory, which lives as long as any of them.
nb::tuple ToArrays(Minibatch minibatch) {
  auto kept = std::make_unique<Minibatch>(std::move(minibatch));
  Minibatch& of = *kept;
  const nb::capsule owner = Keep(std::move(kept));
  const auto frames = static_cast<size_t>(of.num_frames());
  const auto column = [&]<class T>(std::span<const T> values) {
    return nb::cast(nb::ndarray<nb::numpy, T>(const_cast<T*>(values.data()), {frames}, owner));
  };
  return nb::make_tuple(
      nb::cast(nb::ndarray<nb::numpy, float>(of.features().data(), {frames, static_cast<size_t>(of.dim())}, owner)),
      column(of.labels()), column(of.weights()), column(of.frame_ids()));
}

struct Store : EndedUnlocked<FrameStore> {
  Store(const std::string& folder, const FrameStoreCache& cache)
      : EndedUnlocked(folder, cache), is_remote(folder.find("://") != std::string::npos) {}
  const bool is_remote;
};
using Epoch = OneAtATime<Minibatches>;

nb::tuple Next(Epoch& epoch) {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  while (!epoch.Use([&](Minibatches& of) { return of.WaitForNext(kBetweenLooks); })) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  std::optional<Minibatch> next = epoch.Use([](Minibatches& of) { return of.Next(); });
  if (!next) throw nb::stop_iteration();
  return ToArrays(std::move(*next));
}

// Ctrl-C ends the waiting for a server.
template <class F>
auto Ask(const Store& store, F&& question, bool takes_long = false) {
  return Interruptible([&](const CancelToken&) { return question(*store); }, takes_long || store.is_remote);
}

auto Utterances(const Store& store) {
  std::vector<std::tuple<std::string, std::string, int64_t, float>> utterances;
  for (const FrameStore::Utterance& u : (*store).utterances()) {
    utterances.emplace_back(u.utt_id, u.speaker, u.num_frames, u.weight);
  }
  return utterances;
}

}  // namespace

void BindFrameStore(nb::module_& m) {
  nb::class_<Store>(m, "FrameStore", "As antiphon.FrameStore.")
      .def(
          "__init__",
          [](Store* self, const std::string& folder, const std::string& cache, double limit_gb) {
            Interruptible([&](const CancelToken&) { new (self) Store(folder, FrameStoreCache{cache, limit_gb}); });
          },
          nb::arg("folder"), nb::arg("cache"), nb::arg("limit_gb"))
      .def_prop_ro(
          "feature_dim", [](const Store& self) { return (*self).feature_dim(); }, "Values per frame.")
      .def_prop_ro(
          "num_labels", [](const Store& self) { return (*self).num_labels(); }, "Labels are below it.")
      .def_prop_ro(
          "num_frames", [](const Store& self) { return (*self).num_frames(); }, "Of all utterances.")
      .def_prop_ro(
          "labelled", [](const Store& self) { return (*self).labelled(); }, "Whether labels mean anything.")
      .def_prop_ro(
          "front_end", [](const Store& self) { return (*self).front_end(); }, "The front end's options, as TOML.")
      .def("utterances", &Utterances, "(id, speaker, frames, weight) of each.")
      .def(
          "features",
          [](const Store& self, size_t utterance) {
            auto frames = Ask(self, [&](const FrameStore& store) { return store.Features(utterance); });
            const auto dim = static_cast<size_t>((*self).feature_dim());
            const size_t rows = frames.size() / dim;
            return ArrayOf(std::move(frames), {rows, dim});
          },
          nb::arg("utterance"), "Frames of an utterance.")
      .def(
          "labels",
          [](const Store& self, size_t utterance) {
            auto labels = Ask(self, [&](const FrameStore& store) { return store.Labels(utterance); });
            const size_t size = labels.size();
            return ArrayOf(std::move(labels), {size});
          },
          nb::arg("utterance"), "Labels of an utterance.")
      .def(
          "count_labels",
          [](const Store& self) {
            auto counts = Ask(
                self, [](const FrameStore& store) { return store.CountLabels(); }, /*takes_long=*/true);
            const size_t size = counts.size();
            return ArrayOf(std::move(counts), {size});
          },
          "How often each label is there.")
      .def(
          "moments",
          [](const Store& self) {
            auto moments = Ask(
                self, [](const FrameStore& store) { return store.FeatureMoments(); }, /*takes_long=*/true);
            const size_t size = moments.mean.size();
            return nb::make_tuple(ArrayOf(std::move(moments.mean), {size}),
                                  ArrayOf(std::move(moments.inverse_stddev), {size}));
          },
          nb::sig("def moments(self) -> tuple[typing.Any, typing.Any]"),
          "Mean and inverse standard deviation of each feature.");
  nb::class_<MinibatchSettings>(m, "MinibatchSettings", "As antiphon.FrameStore.minibatches takes them.")
      .def(nb::init<>())
      .def_rw("minibatch", &MinibatchSettings::minibatch)
      .def_rw("left_context", &MinibatchSettings::left_context)
      .def_rw("right_context", &MinibatchSettings::right_context)
      .def_rw("shuffle", &MinibatchSettings::shuffle)
      .def_rw("seed", &MinibatchSettings::seed)
      .def_rw("utterances", &MinibatchSettings::utterances)
      .def_rw("prefetch", &MinibatchSettings::prefetch)
      .def_rw("shards_at_once", &MinibatchSettings::shards_at_once);
  nb::class_<Epoch>(m, "Minibatches", "One epoch.")
      .def(
          "__init__",
          [](Epoch* self, const Store& store, const MinibatchSettings& settings, int64_t epoch) {
            new (self) Epoch(*store, settings, epoch);
          },
          nb::arg("store"), nb::arg("settings"), nb::arg("epoch"), nb::call_guard<WithoutLock>())
      .def("__len__", [](Epoch& self) { return self.Use([](const Minibatches& epoch) { return epoch.size(); }); })
      .def(
          "__iter__", [](nb::handle self) { return self; }, nb::sig("def __iter__(self) -> Minibatches"))
      .def("__next__", &Next, nb::sig("def __next__(self) -> tuple[typing.Any, typing.Any, typing.Any, typing.Any]"));
}

}  // namespace antiphon::python
