// A second head on a hidden layer for the time of training (nn/layers/side_task.cc): its options, and how it gets
// there.
#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"
#include "nn/layers/side_task.h"
#include "nn/network.h"

namespace antiphon::adapt {

struct SideTaskOptions : nn::SideHeadOptions {
  std::string task = "none";
  std::string store;
  std::string labels;
  std::string after;
  bool balance = false;
  double learn = 0.0;
  template <class V>
  void Visit(V& v) {
    v("task", task, OneOf{{"none", "domain", "speaker", "labels"}},
      "what a second head learns from a hidden layer: whether a frame is of the training speech or of `store`, who "
      "speaks, or the labels of a file");
    v("store", store,
      "task = 'domain': frame store of speech of another kind, of which every minibatch gets as many frames as of the "
      "training speech; its pdf-ids are not read, but for balance and learn");
    v("labels", labels,
      "task = 'labels': file with 'UTTERANCE LABEL' per line; utterances without a line count for nothing");
    VisitHead(v);
    VisitAdversarial(v);
  }
  template <class V>
  void VisitHead(V& v) {
    v("after", after, "layer that it looks at; empty: the middle activation");
    VisitStrength(v);
    v("balance", balance,
      "task = 'domain': the head sees each phone as often of one speech as of the other, what is too much being left "
      "out; needs pdf-ids of the other speech, recognised ones for instance");
    v("learn", learn, Range{0, 1e3},
      "task = 'domain': how much a frame of the other speech counts in the senones' loss, by its own pdf-id; 0: not");
  }
  /// Whether pdf-ids of the other speech are read.
  bool reads_pdf_ids() const { return balance || learn > 0; }
  bool any() const { return task != "none"; }
};

/// The network with the head, whose values are drawn from `seed`; all else stays.
nn::Network InsertSideTask(const nn::Network& network, const SideTaskOptions& options, int classes, uint64_t seed);

/// The layer behind which InsertSideTask puts the head.
std::string SideTaskPlace(const nn::Network& network, const SideTaskOptions& options);

}  // namespace antiphon::adapt
