// Features and alignment joined to the frame store that training reads.
//
// Threads: one caller. Errors: UsageError and those of data::BuildFrameStore.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/options.h"
#include "data/frame_store.h"

namespace antiphon::pipeline {

struct StoreRequest {
  std::string out;
  std::string hmm;
  data::BuildFrameStoreOptions build;

  template <class V>
  void Visit(V& v) {
    v("out", out, "folder of the store; an older store there is replaced when the new one is whole");
    v("hmm", hmm, "model whose pdf-ids these are, in place of num-pdfs");
    build.Visit(v);
  }
};

struct StoreReport {
  std::string folder;
  data::FrameStoreSummary summary;
};

StoreReport Store(const StoreRequest& request, int num_threads);

nlohmann::json ToJson(const StoreReport& report);
std::vector<std::string> Sentences(const StoreReport& report);

}  // namespace antiphon::pipeline
