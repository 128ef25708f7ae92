// What sequence-discriminative training learns from: for each utterance a lattice of what the search takes for
// possible, with the reference among its paths, and the reference's alignment.
//
// Folder: lattices.ark/.scp (Kaldi's text lattices, decode/lattice_text.h), ali.ark/.scp (transition-ids of the
// references), and at last lattices.json (whose transition-ids they are), without which a folder is not whole. Lattices
// are read when they are asked for; memory does not grow with the data.
// Threads: a writer belongs to one; Get may be called by several together.
// Errors: InputError naming file and utterance, and for a folder that is not whole or belongs to another model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decode/lattice/lattice.h"
#include "hmm/hmm_model.h"

namespace antiphon::train {

struct SequenceEntry {
  decode::Lattice lattice;
  std::vector<int32_t> reference;  // a transition-id per frame
};

class SequenceDataWriter {
 public:
  SequenceDataWriter(const std::filesystem::path& folder, const hmm::HmmModel& model);
  ~SequenceDataWriter();
  void Write(const std::string& utt_id, const SequenceEntry& entry);
  /// Everything appears whole.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class SequenceData {
 public:
  /// `model` must have the phones, topology and tree of the writer's.
  SequenceData(const std::filesystem::path& folder, const hmm::HmmModel& model);
  ~SequenceData();
  bool Has(std::string_view utt_id) const;
  /// In the order of their names.
  std::vector<std::string> utt_ids() const;
  SequenceEntry Get(std::string_view utt_id) const;
  const std::filesystem::path& folder() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon::train
