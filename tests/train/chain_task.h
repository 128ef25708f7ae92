// A small language of phones and speech of it, for tests of chain training.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "chain/chain_data.h"
#include "synthetic_task.h"
#include "temporary_folder.h"

namespace antiphon::train {

class ChainTraining : public ::testing::Test {
 protected:
  // SIL = 1, A = 2, B = 3, C = 4; what follows what is half chance.
  void SetUp() override {
    const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
    const hmm::Topology topology = hmm::Topology::Chain(phones);
    const hmm::HmmModel model(phones, topology, hmm::ContextTree::Monophone(topology));
    data::FrameStoreWriter writer(folder_ / "store", 4, model.num_pdfs());
    std::map<std::string, chain::Reference> references;
    std::vector<std::vector<int32_t>> sequences;
    for (int u = 0; u < 40; ++u) {
      Rng rng(3, static_cast<uint64_t>(u));
      chain::Reference reference;
      int32_t phone = 1, end = 0;
      for (int p = 0; p < 14; ++p) {
        reference.phones.push_back(phone);
        reference.ends.push_back(end += 6 + static_cast<int32_t>(rng.Below(9)));
        phone = 1 + (phone + static_cast<int32_t>(rng.Below(2))) % 4;
      }
      Matrix features(end, 4);
      std::vector<int32_t> pdf_ids(static_cast<size_t>(end));
      for (int32_t t = 0, p = 0; t < end; ++t) {
        while (reference.ends[static_cast<size_t>(p)] <= t) ++p;
        pdf_ids[static_cast<size_t>(t)] = 2 * (reference.phones[static_cast<size_t>(p)] - 1);
        for (int c = 0; c < 4; ++c) {
          features(t, c) = static_cast<float>((reference.phones[static_cast<size_t>(p)] == c + 1) + 0.5 * rng.Normal());
        }
      }
      const std::string speaker = "spk" + std::to_string(u % 5);
      writer.Add(speaker + "-utt" + std::to_string(u), speaker, features, pdf_ids);
      sequences.push_back(reference.phones);
      references[speaker + "-utt" + std::to_string(u)] = reference;
    }
    writer.Finish();
    store_ = std::make_shared<const data::FrameStore>(folder_ / "store");
    auto graph = chain::DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(sequences, {}));
    chain::ChainData{model, std::move(graph), chain::References(std::move(references)), 3}.Save(folder_ / "chain");
  }

  TrainingTask Task(const std::string& name) {
    TrainingTask task = SmallTask(store_, folder_ / name);
    task.hmm = chain::ChainData::Load(folder_ / "chain").model;
    task.network = Config::Parse(
        "layer = [{type='tdnn', dim=16, offsets=[-1, 0, 1], stride=3}, {type='relu'}, {type='affine'}]\n", "n");
    return task;
  }
  TrainOptions Options() const {
    TrainOptions options = SmallOptions();
    options.sequence.criterion.criterion = "chain";
    options.sequence.chain_data = (folder_ / "chain").string();
    options.data.left_context = options.data.right_context = 0;
    options.data.chunk_frames = 30;
    options.data.minibatch = 240;
    options.schedule.epochs = 8;
    options.dropout_schedule = "0";
    return options;
  }
  std::string Refusal(const TrainingTask& task, const TrainOptions& options) {
    try {
      TrainHere(task, options);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  }

  testing::TemporaryFolder folder_;
  std::shared_ptr<const data::FrameStore> store_;
};

}  // namespace antiphon::train
