// What antiphon chain leaves for training: the chain model's states, the denominator graph and what was said.
//
// Folder: model.safetensors (phones, topology, tree), denominator.safetensors, phones.ark/.scp (phone and input frames
// in turn, by utterance; with checksums), pdf.ark/.scp (PdfsByFrame of each reference that fits; with checksums) and at
// last chain.json, without which a folder is not whole. Threads: const methods may run together. Errors: InputError
// naming the file, and the utterance where there is one.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chain/denominator.h"
#include "chain/left_out.h"
#include "chain/numerator.h"
#include "chain/reference.h"
#include "hmm/hmm_model.h"

namespace antiphon::chain {

/// References by utterance id; numbered in the order of their ids.
class References {
 public:
  References() = default;
  explicit References(std::map<std::string, Reference> references);

  size_t size() const { return references_.size(); }
  std::optional<size_t> Find(std::string_view utt_id) const;
  const std::string& Id(size_t i) const { return references_[i].first; }
  const Reference& operator[](size_t i) const { return references_[i].second; }

 private:
  std::vector<std::pair<std::string, Reference>> references_;
};

struct ChainData {
  hmm::HmmModel model;
  DenominatorGraph denominator;
  References references;
  int step = 3;                                                     // input frames per output
  std::shared_ptr<LeftOut> left_out = std::make_shared<LeftOut>();  // in training

  void Save(const std::filesystem::path& folder) const;
  static ChainData Load(const std::filesystem::path& folder);
};

/// Tied states by input frame, each as the grid of outputs gives them that the frame is on: what a frame store takes.
/// Nothing if the phones do not fit.
std::optional<std::vector<int32_t>> PdfsByFrame(const ChainData& data, const Reference& reference);

/// Utterances that cannot be learned from as a whole at any shift of the outputs, with what is wrong.
std::vector<std::pair<std::string, std::string>> FindUnusable(const ChainData& data, const NumeratorOptions& options,
                                                              int num_threads);

}  // namespace antiphon::chain
