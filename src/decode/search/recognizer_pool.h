// Recognisers that several threads borrow, utterance by utterance: as many are made as work at once, and each keeps its
// memory from one utterance to the next.
//
// Threads: Borrow may be called from several. Graph, model, rescorer and pool must outlive what is borrowed.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "decode/search/recognize.h"

namespace antiphon::decode {

class RecognizerPool {
 public:
  RecognizerPool(const Graph& graph, const hmm::HmmModel& model, const RecognizeOptions& options,
                 const LmRescorer* rescorer = nullptr, const WordBias* bias = nullptr)
      : graph_(graph), model_(model), options_(options), rescorer_(rescorer), bias_(bias) {}

  /// It goes back to the pool when the last copy of the pointer is gone.
  std::shared_ptr<Recognizer> Borrow();

 private:
  const Graph& graph_;
  const hmm::HmmModel& model_;
  const RecognizeOptions options_;
  const LmRescorer* rescorer_;
  const WordBias* bias_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Recognizer>> idle_;
};

}  // namespace antiphon::decode
