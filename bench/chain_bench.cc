// What the objective of chain training costs: milliseconds per minibatch, and picoseconds per arc, output and chunk.
//
// Usage: chain_bench [CHAIN-FOLDER [CHUNKS [OUTPUTS [ROUNDS]]]], where CHAIN-FOLDER is what antiphon chain left.
// Without one, phones of a random grammar: 40 phones, 3000 utterances. OMP_NUM_THREADS sets the threads. Prints JSON.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/compute_threads.h"
#include "base/random.h"
#include "chain/chain_loss.h"
#include "chain/chain_model.h"

namespace {

using namespace antiphon;

// Each phone is followed by one of ten, some of them far more often.
chain::ChainData RandomData() {
  constexpr int kPhones = 40;
  std::vector<std::string> names;
  for (int p = 0; p < kPhones; ++p) names.push_back(fmt::format("P{:02}", p));
  const hmm::PhoneSet phones(names, {"SIL"}, false);
  Rng rng(1);
  std::map<std::string, chain::Reference> references;
  std::vector<std::vector<int32_t>> sequences;
  hmm::TreeStats stats;
  for (int u = 0; u < 3000; ++u) {
    chain::Reference reference;
    int32_t phone = 1, end = 0;
    for (int p = 0; p < 120; ++p) {
      reference.phones.push_back(phone);
      reference.ends.push_back(end += 4 + static_cast<int32_t>(rng.Below(9)));
      const double r = rng.Uniform();
      phone = 1 + (phone * 7 + static_cast<int32_t>(30 * r * r)) % (kPhones + 1);
    }
    Matrix features(end, 4);
    for (int64_t i = 0; i < features.size(); ++i) features.data()[i] = static_cast<float>(rng.Uniform());
    chain::AddChainTreeStats(reference, features, 0, 3, &stats);
    sequences.push_back(reference.phones);
    references[fmt::format("utt{:05}", u)] = std::move(reference);
  }
  hmm::HmmModel model = chain::BuildChainModel(phones, stats, {2000, 20});
  auto graph = chain::DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(sequences, {}));
  return {std::move(model), std::move(graph), chain::References(std::move(references)), 3};
}

}  // namespace

int main(int argc, char** argv) {
  const auto data = std::make_shared<const chain::ChainData>(
      argc > 1 && argv[1][0] != 0 ? chain::ChainData::Load(argv[1]) : RandomData());
  const int num_chunks = argc > 2 ? std::atoi(argv[2]) : 128;
  const int outputs = argc > 3 ? std::atoi(argv[3]) : 47;
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 9;
  Rng rng(2);
  std::vector<chain::ChainChunk> chunks;
  while (static_cast<int>(chunks.size()) < num_chunks) {
    const size_t u = rng.Below(data->references.size());
    const int room = data->references[u].num_frames() - outputs * data->step;
    if (room <= 0) continue;
    chunks.push_back({u, {static_cast<int>(rng.Below(static_cast<uint64_t>(room))), outputs}, 1.0F});
  }
  Matrix y(int64_t{outputs} * num_chunks, data->model.num_pdfs()), derivative(y.rows(), y.cols());
  for (int64_t i = 0; i < y.size(); ++i) y.data()[i] = static_cast<float>(rng.Uniform(-3, 3));
  chain::ChainLoss loss(data, {});
  std::vector<double> seconds;
  chain::ChainResult result;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    result = loss.Compute(chunks, y, derivative);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(seconds);
  const double least = seconds.front(), middle = seconds[seconds.size() / 2];
  const auto arcs = static_cast<double>(data->denominator.arcs().size() + data->denominator.states().size());
  fmt::print(
      "{{\"states\": {}, \"arcs\": {}, \"pdfs\": {}, \"chunks\": {}, \"outputs\": {}, \"threads\": {}, \"left_out\": "
      "{}, "
      "\"objective_per_output\": {:.3f}, \"milliseconds\": {:.1f}, \"least_milliseconds\": {:.1f}, "
      "\"picoseconds_per_arc_output_chunk\": {:.1f}, \"microseconds_per_output\": {:.2f}}}\n",
      data->denominator.states().size(), data->denominator.arcs().size(), data->model.num_pdfs(), num_chunks, outputs,
      ComputeThreads(), result.left_out, result.objective_sum / result.weight_sum, middle * 1e3, least * 1e3,
      least / arcs / outputs / num_chunks * 1e12, least / outputs / num_chunks * 1e6);
  return 0;
}
