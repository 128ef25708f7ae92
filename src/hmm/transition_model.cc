#include "hmm/transition_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace antiphon::hmm {

TransitionModel::TransitionModel(const Topology& topology, const ContextTree& tree) : num_pdfs_(tree.num_pdfs()) {
  CHECK_EQ(topology.num_phones(), tree.num_phones());
  states_.push_back({0, 0, 0, 0, 0});
  for (int32_t phone = 1; phone <= topology.num_phones(); ++phone) {
    const TopologyEntry& entry = topology.Entry(phone);
    for (size_t s = 0; s + 1 < entry.size(); ++s) {
      if (std::max(entry[s].pdf_class, entry[s].LoopClass()) >= tree.NumPdfClasses(phone))
        Throw<InputError>("phone {} has pdf class {}, the context tree knows {}", phone,
                          std::max(entry[s].pdf_class, entry[s].LoopClass()), tree.NumPdfClasses(phone));
      for (const auto& [pdf, loop_pdf] : tree.PdfPairsOf(phone, entry[s].pdf_class, entry[s].LoopClass())) {
        states_.push_back({phone, static_cast<int32_t>(s), pdf, loop_pdf, static_cast<int32_t>(state_of_id_.size())});
        for (const TopologyTransition& transition : entry[s].transitions) {
          state_of_id_.push_back(static_cast<int32_t>(states_.size()) - 1);
          self_loop_.push_back(transition.to == static_cast<int>(s));
          final_.push_back(transition.to + 1 == static_cast<int>(entry.size()));
          log_prob_.push_back(std::log(transition.probability));
        }
      }
    }
  }
  Derive();
}

void TransitionModel::Derive() {
  self_loop_of_.assign(states_.size(), 0);
  leave_log_prob_.assign(states_.size(), 0);
  for (int32_t state = 1; state <= num_transition_states(); ++state) {
    double leave = 0;
    for (int t = 0; t < NumTransitions(state); ++t) {
      const int32_t id = TransitionId(state, t);
      if (IsSelfLoop(id)) {
        self_loop_of_[static_cast<size_t>(state)] = id;
      } else {
        leave += std::exp(static_cast<double>(LogProb(id)));
      }
    }
    leave_log_prob_[static_cast<size_t>(state)] = static_cast<float>(std::log(leave));
  }
}

int TransitionModel::NumTransitions(int32_t state) const {
  const auto s = static_cast<size_t>(state);
  const int32_t next = s + 1 < states_.size() ? states_[s + 1].first_id : num_transition_ids() + 1;
  return next - states_[s].first_id;
}

float TransitionModel::LogProbWithoutSelfLoop(int32_t id) const {
  DCHECK(!IsSelfLoop(id));
  return std::min(0.0F, LogProb(id) - LeaveLogProb(TransitionState(id)));
}

int32_t TransitionModel::FindState(int32_t phone, int hmm_state, int32_t pdf_id, int32_t loop_pdf_id) const {
  const std::tuple<int32_t, int32_t, int32_t, int32_t> key(phone, hmm_state, pdf_id, loop_pdf_id);
  const auto it = std::lower_bound(states_.begin() + 1, states_.end(), key,
                                   [](const StateInfo& s, const auto& k) { return s.Key() < k; });
  return it != states_.end() && it->Key() == key ? static_cast<int32_t>(it - states_.begin()) : 0;
}

double TransitionModel::Update(std::span<const double> counts, const TransitionUpdateOptions& options) {
  CHECK_EQ(counts.size(), log_prob_.size());
  double gain = 0;
  double total_count = 0;
  for (int32_t state = 1; state <= num_transition_states(); ++state) {
    const int n = NumTransitions(state);
    const int32_t first = TransitionId(state, 0);
    double total = 0;
    for (int t = 0; t < n; ++t) total += counts[static_cast<size_t>(first + t)];
    total_count += total;
    if (n < 2 || total < options.min_count || total <= 0) continue;
    std::vector<double> probability(static_cast<size_t>(n));
    for (int t = 0; t < n; ++t) probability[static_cast<size_t>(t)] = counts[static_cast<size_t>(first + t)] / total;
    // Flooring and normalising in turn settles after a few rounds.
    for (int round = 0; round < 3; ++round) {
      double sum = 0;
      for (double& p : probability) sum += p = std::max(p, options.floor);
      for (double& p : probability) p /= sum;
    }
    for (int t = 0; t < n; ++t) {
      const auto id = static_cast<size_t>(first + t);
      const auto log_prob = static_cast<float>(std::log(probability[static_cast<size_t>(t)]));
      gain += counts[id] * (static_cast<double>(log_prob) - static_cast<double>(log_prob_[id]));
      log_prob_[id] = log_prob;
    }
  }
  Derive();
  return total_count > 0 ? gain / total_count : 0;
}

void TransitionModel::SetLogProbs(std::vector<float> log_probs) {
  if (log_probs.size() != log_prob_.size())
    Throw<InputError>("{} transition probabilities where topology and tree give {}", log_probs.size() - 1,
                      log_prob_.size() - 1);
  for (int32_t state = 1; state <= num_transition_states(); ++state) {
    double sum = 0;
    for (int t = 0; t < NumTransitions(state); ++t)
      sum += std::exp(static_cast<double>(log_probs[static_cast<size_t>(TransitionId(state, t))]));
    if (!(std::abs(sum - 1) < 0.01))
      Throw<InputError>("the probabilities of transition state {} add up to {}, not 1", state, sum);
  }
  log_prob_ = std::move(log_probs);
  Derive();
}

bool TransitionModel::operator==(const TransitionModel& other) const {
  return states_ == other.states_ && state_of_id_ == other.state_of_id_ && log_prob_ == other.log_prob_;
}

}  // namespace antiphon::hmm
