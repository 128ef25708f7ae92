#include "hmm/graph/phone_ngrams.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

constexpr int32_t kEnd = 0;
constexpr int kPhoneBits = 20;
constexpr uint64_t kPhoneMask = (uint64_t{1} << kPhoneBits) - 1;

// A history of up to three phones in one number: how many, then the phones, the newest last.
class History {
 public:
  History() = default;
  int size() const { return static_cast<int>(packed_ >> (3 * kPhoneBits)); }
  History With(int32_t phone, int longest) const {
    const int size = std::min(this->size() + 1, longest);
    const uint64_t phones = (packed_ << kPhoneBits | static_cast<uint64_t>(phone)) & Mask(size);
    return History(static_cast<uint64_t>(size) << (3 * kPhoneBits) | phones);
  }
  History WithoutOldest() const {
    return History(static_cast<uint64_t>(size() - 1) << (3 * kPhoneBits) | (packed_ & Mask(size() - 1)));
  }
  std::vector<int32_t> Phones() const {
    std::vector<int32_t> phones;
    for (int i = size(); i-- > 0;) phones.push_back(static_cast<int32_t>(packed_ >> (i * kPhoneBits) & kPhoneMask));
    return phones;
  }
  uint64_t packed() const { return packed_; }
  auto operator<=>(const History&) const = default;

 private:
  explicit History(uint64_t packed) : packed_(packed) {}
  static uint64_t Mask(int size) { return (uint64_t{1} << (size * kPhoneBits)) - 1; }
  uint64_t packed_ = 0;
};

// What followed a history, and how often; by phone.
using Counts = std::map<int32_t, double>;

double LogLikelihood(const Counts& counts) {
  double total = 0, sum = 0;
  for (const auto& [phone, count] : counts) {
    total += count;
    sum += count * std::log(count);
  }
  return total > 0 ? sum - total * std::log(total) : 0;
}

void Add(const Counts& from, Counts* to) {
  for (const auto& [phone, count] : from) (*to)[phone] += count;
}

class Estimator {
 public:
  explicit Estimator(const PhoneNgramOptions& options)
      : longest_(options.order - 1), max_long_(static_cast<size_t>(options.max_long_histories)) {}

  PhoneNgrams Run(std::span<const std::vector<int32_t>> sequences) {
    for (const std::vector<int32_t>& phones : sequences) Count(phones);
    if (counts_.empty()) throw InputError("there are no phones to learn n-grams of");
    if (longest_ == 3) MergeLongHistories();
    return States();
  }

 private:
  void Count(const std::vector<int32_t>& phones) {
    if (phones.empty()) return;
    History history = History().With(0, longest_);
    for (const int32_t phone : phones) {
      CHECK(phone > 0 && static_cast<uint64_t>(phone) <= kPhoneMask) << "phone " << phone;
      counts_[history][phone] += 1;
      history = history.With(phone, longest_);
    }
    counts_[history][kEnd] += 1;
  }

  // What it costs to give the history's counts to its history without the oldest phone.
  double Loss(History history) {
    const Counts& own = counts_.at(history);
    Counts& parent = counts_[history.WithoutOldest()];
    Counts sum = parent;
    Add(own, &sum);
    return LogLikelihood(own) + LogLikelihood(parent) - LogLikelihood(sum);
  }

  void MergeLongHistories() {
    using Entry = std::pair<double, History>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<History> longest;
    for (const auto& [history, counts] : counts_) {
      if (history.size() == 3) longest.push_back(history);
    }
    for (const History history : longest) queue.emplace(Loss(history), history);
    // A loss changes as the other histories' counts come in: what stands in the queue may be old.
    while (queue.size() > max_long_) {
      const History history = queue.top().second;
      queue.pop();
      const double loss = Loss(history);
      if (!queue.empty() && Entry(loss, history) > queue.top()) {
        queue.emplace(loss, history);
        continue;
      }
      Add(counts_.at(history), &counts_.at(history.WithoutOldest()));
      counts_.erase(history);
    }
  }

  PhoneNgrams States() {
    std::map<History, int32_t> ids;
    const History begin = History().With(0, longest_);
    ids[begin] = 0;
    for (const auto& [history, counts] : counts_) {
      if (!counts.empty()) ids.emplace(history, static_cast<int32_t>(ids.size()));
    }
    PhoneNgrams result;
    result.states.resize(ids.size());
    for (const auto& [history, id] : ids) {
      PhoneNgrams::State& state = result.states[static_cast<size_t>(id)];
      state.history = history.Phones();
      const Counts& counts = counts_.at(history);
      double total = 0;
      for (const auto& [phone, count] : counts) total += count;
      result.log_likelihood += LogLikelihood(counts);
      for (const auto& [phone, count] : counts) {
        if (phone == kEnd) {
          state.end_probability = count / total;
          continue;
        }
        History next = history.With(phone, longest_);
        while (!ids.contains(next)) {
          CHECK_GT(next.size(), 1) << "a history that occurs has no state";
          next = next.WithoutOldest();
        }
        state.arcs.push_back({phone, ids.at(next), count / total});
      }
    }
    return result;
  }

  int longest_;
  size_t max_long_;
  std::map<History, Counts> counts_;
};

}  // namespace

PhoneNgrams EstimatePhoneNgrams(std::span<const std::vector<int32_t>> sequences, const PhoneNgramOptions& options) {
  CHECK(options.order >= 2 && options.order <= 4) << options.order;
  return Estimator(options).Run(sequences);
}

}  // namespace antiphon::hmm
