#include "g2p/unit_aligner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "base/cancel.h"
#include "base/thread_pool.h"

namespace antiphon::g2p {
namespace {

// Fixed, so that sums do not depend on the number of threads.
constexpr size_t kChunks = 8;

// One sequence of letters or phones that a unit may have, by id.
class Pieces {
 public:
  int32_t Id(std::span<const int32_t> piece) {
    const auto [it, added] = ids_.try_emplace({piece.begin(), piece.end()}, static_cast<int32_t>(pieces_.size()));
    if (added) pieces_.push_back(it->first);
    return it->second;
  }
  const std::vector<int32_t>& operator[](int32_t id) const { return pieces_[static_cast<size_t>(id)]; }

 private:
  std::map<std::vector<int32_t>, int32_t> ids_;
  std::vector<std::vector<int32_t>> pieces_;
};

// A unit between two places of an entry: `from` letters and phones are said before it, `to` with it.
struct Place {
  int from_letter, from_phone, to_letter, to_phone;
};

class Aligner {
 public:
  Aligner(std::span<const SpellingPair> pairs, const AlignmentOptions& options, int num_threads)
      : pairs_(pairs), options_(options), num_threads_(num_threads) {
    FindUnits();
  }

  UnitAlignment Run() {
    UnitAlignment result;
    probabilities_.assign(units_.size(), 1.0);
    for (int i = 0; i < options_.iterations; ++i) {
      ThrowIfCancelled("aligning letters and phones");
      result.log_likelihood = Reestimate();
    }
    Cut(result);
    return result;
  }

 private:
  // Calls visit(place) for each place of a unit that can be on a way from the beginning to the end, by rising
  // to_letter.
  template <class Visit>
  void ForEachPlace(const SpellingPair& pair, Visit&& visit) const {
    const int letters = static_cast<int>(pair.letters.size());
    const int phones = static_cast<int>(pair.phones.size());
    for (int i = 1; i <= letters; ++i) {
      const int left = (letters - i) * options_.max_phones;
      for (int a = 1; a <= std::min(options_.max_letters, i); ++a) {
        const int reached = (i - a) * options_.max_phones;
        for (int j = std::max(0, phones - left); j <= phones; ++j) {
          const int least = a > 1 ? 1 : 0;
          const int most = std::min(j, a > 1 ? 1 : options_.max_phones);
          for (int b = least; b <= most; ++b) {
            if (j - b <= reached) visit(Place{i - a, j - b, i, j});
          }
        }
      }
    }
  }

  void FindUnits() {
    Pieces letters, phones;
    std::unordered_map<uint64_t, int32_t> ids;
    std::vector<int32_t> letter_piece, phone_piece;
    for (const SpellingPair& pair : pairs_) {
      first_place_.push_back(unit_at_.size());
      if (!CanBeCut(pair, options_.max_phones)) continue;
      const auto table = [](Pieces& pieces, const std::vector<int32_t>& ids_of, int most, std::vector<int32_t>& out) {
        const size_t width = static_cast<size_t>(most) + 1;
        out.assign((ids_of.size() + 1) * width, -1);
        for (size_t from = 0; from <= ids_of.size(); ++from) {
          for (size_t n = 0; n < width && from + n <= ids_of.size(); ++n) {
            out[from * width + n] = pieces.Id(std::span(ids_of).subspan(from, n));
          }
        }
      };
      table(letters, pair.letters, options_.max_letters, letter_piece);
      table(phones, pair.phones, options_.max_phones, phone_piece);
      ForEachPlace(pair, [&](const Place& p) {
        const int32_t letter =
            letter_piece[static_cast<size_t>(p.from_letter * (options_.max_letters + 1) + p.to_letter - p.from_letter)];
        const int32_t phone =
            phone_piece[static_cast<size_t>(p.from_phone * (options_.max_phones + 1) + p.to_phone - p.from_phone)];
        const uint64_t key = static_cast<uint64_t>(letter) << 32 | static_cast<uint32_t>(phone);
        const auto [it, added] = ids.try_emplace(key, static_cast<int32_t>(units_.size()));
        if (added) units_.push_back({letters[letter], phones[phone]});
        unit_at_.push_back(it->second);
      });
    }
    first_place_.push_back(unit_at_.size());
  }

  struct Workspace {
    std::vector<Place> places;
    std::vector<double> forward, backward;  // by letters and phones said
    std::vector<double> scales;             // by letters said: what a row of `forward` was divided by, as a logarithm
  };

  double Probability(int32_t unit) const { return probabilities_[static_cast<size_t>(unit)]; }
  std::span<const int32_t> UnitsAt(size_t pair) const {
    return std::span(unit_at_).subspan(first_place_[pair], first_place_[pair + 1] - first_place_[pair]);
  }

  // Adds the expected counts of a pair's units; returns the log-likelihood. Rows of `forward` are divided by their
  // largest value, so that words of any length stay within the range of numbers; `backward` has the inverse factors.
  double Accumulate(size_t index, Workspace& ws, std::vector<double>& counts) const {
    const SpellingPair& pair = pairs_[index];
    const std::span<const int32_t> units = UnitsAt(index);
    if (units.empty()) return 0.0;
    const size_t columns = pair.phones.size() + 1;
    const auto cell = [&](int letter, int phone) {
      return static_cast<size_t>(letter) * columns + static_cast<size_t>(phone);
    };
    ws.places.clear();
    ForEachPlace(pair, [&](const Place& p) { ws.places.push_back(p); });
    ws.forward.assign((pair.letters.size() + 1) * columns, 0.0);
    ws.backward = ws.forward;
    ws.scales.assign(pair.letters.size() + 1, 0.0);
    ws.forward[0] = 1.0;
    size_t at = 0;
    for (int i = 1; i <= std::ssize(pair.letters); ++i) {
      const double scale = ws.scales[static_cast<size_t>(i) - 1];
      for (; at < ws.places.size() && ws.places[at].to_letter == i; ++at) {
        const Place& p = ws.places[at];
        const double shift =
            p.from_letter == i - 1 ? 1.0 : std::exp(ws.scales[static_cast<size_t>(p.from_letter)] - scale);
        ws.forward[cell(i, p.to_phone)] +=
            shift * ws.forward[cell(p.from_letter, p.from_phone)] * Probability(units[at]);
      }
      const auto row = std::span(ws.forward).subspan(cell(i, 0), columns);
      const double largest = *std::max_element(row.begin(), row.end());
      ws.scales[static_cast<size_t>(i)] = scale;
      if (largest <= 0) continue;
      ws.scales[static_cast<size_t>(i)] += std::log(largest);
      for (double& value : row) value /= largest;
    }
    if (!(ws.forward.back() > 0)) return 0.0;
    ws.backward.back() = 1.0 / ws.forward.back();
    // Places end at rising letters, so whatever leaves a row was visited before what enters it.
    for (size_t k = units.size(); k-- > 0;) {
      const Place& p = ws.places[k];
      const double shift =
          std::exp(ws.scales[static_cast<size_t>(p.from_letter)] - ws.scales[static_cast<size_t>(p.to_letter)]);
      const double behind = shift * Probability(units[k]) * ws.backward[cell(p.to_letter, p.to_phone)];
      const size_t from = cell(p.from_letter, p.from_phone);
      ws.backward[from] += behind;
      counts[static_cast<size_t>(units[k])] += ws.forward[from] * behind;
    }
    return std::log(ws.forward.back()) + ws.scales.back();
  }

  // One iteration; returns the log-likelihood per pair, by the probabilities before it.
  double Reestimate() {
    std::vector<std::vector<double>> counts(kChunks);
    std::vector<double> log_likelihoods(kChunks, 0.0);
    ParallelFor(kChunks, num_threads_, [&](size_t chunk) {
      counts[chunk].assign(units_.size(), 0.0);
      Workspace ws;
      for (size_t i = chunk; i < pairs_.size(); i += kChunks)
        log_likelihoods[chunk] += Accumulate(i, ws, counts[chunk]);
    });
    double total = 0.0, log_likelihood = 0.0;
    for (size_t u = 0; u < units_.size(); ++u) {
      probabilities_[u] = 0.0;
      for (const std::vector<double>& part : counts) probabilities_[u] += part[u];
      total += probabilities_[u];
    }
    for (double& p : probabilities_) p /= total;
    for (const double part : log_likelihoods) log_likelihood += part;
    const auto count = std::count_if(pairs_.begin(), pairs_.end(),
                                     [&](const SpellingPair& pair) { return CanBeCut(pair, options_.max_phones); });
    return count > 0 ? log_likelihood / static_cast<double>(count) : 0.0;
  }

  // The best way, as units of units_.
  std::vector<int32_t> BestCut(size_t index) const {
    const SpellingPair& pair = pairs_[index];
    const std::span<const int32_t> units = UnitsAt(index);
    if (units.empty()) return {};
    const size_t columns = pair.phones.size() + 1;
    const size_t cells = (pair.letters.size() + 1) * columns;
    std::vector<double> cost(cells, std::numeric_limits<double>::infinity());
    std::vector<std::pair<size_t, int32_t>> back(cells, {0, -1});
    cost[0] = 0.0;
    size_t at = 0;
    ForEachPlace(pair, [&](const Place& p) {
      const int32_t unit = units[at++];
      const size_t from = static_cast<size_t>(p.from_letter) * columns + static_cast<size_t>(p.from_phone);
      const size_t to = static_cast<size_t>(p.to_letter) * columns + static_cast<size_t>(p.to_phone);
      const int size = std::max({1, p.to_letter - p.from_letter, p.to_phone - p.from_phone});
      // What has no count any more is still better than no way at all.
      const double own = -std::log(std::max(Probability(unit), 1e-300)) * size;
      if (cost[from] + own < cost[to]) {
        cost[to] = cost[from] + own;
        back[to] = {from, unit};
      }
    });
    std::vector<int32_t> cut;
    for (size_t cell = cells - 1; cell != 0; cell = back[cell].first) cut.push_back(back[cell].second);
    std::reverse(cut.begin(), cut.end());
    return cut;
  }

  void Cut(UnitAlignment& result) const {
    result.sequences.resize(pairs_.size());
    ParallelFor(pairs_.size(), num_threads_, [&](size_t i) { result.sequences[i] = BestCut(i); });
    std::vector<bool> used(units_.size(), false);
    for (const auto& sequence : result.sequences) {
      for (const int32_t unit : sequence) used[static_cast<size_t>(unit)] = true;
    }
    AddSingleLetters(used);
    std::vector<int32_t> order;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (used[u]) order.push_back(static_cast<int32_t>(u));
    }
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return units_[static_cast<size_t>(a)] < units_[static_cast<size_t>(b)]; });
    std::vector<int32_t> new_id(units_.size(), -1);
    for (const int32_t unit : order) {
      new_id[static_cast<size_t>(unit)] = static_cast<int32_t>(result.units.size());
      result.units.push_back(units_[static_cast<size_t>(unit)]);
    }
    for (auto& sequence : result.sequences) {
      for (int32_t& unit : sequence) unit = new_id[static_cast<size_t>(unit)];
    }
  }

  // Marks the best unit of each letter by itself, where none is in use; equal ones: the first.
  void AddSingleLetters(std::vector<bool>& used) const {
    std::map<int32_t, int32_t> best;
    std::map<int32_t, bool> has;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].letters.size() != 1) continue;
      const int32_t letter = units_[u].letters[0];
      if (used[u]) has[letter] = true;
      const auto [it, added] = best.emplace(letter, static_cast<int32_t>(u));
      if (!added && probabilities_[u] > Probability(it->second)) it->second = static_cast<int32_t>(u);
    }
    for (const auto& [letter, unit] : best) {
      if (!has[letter]) used[static_cast<size_t>(unit)] = true;
    }
  }

  std::span<const SpellingPair> pairs_;
  AlignmentOptions options_;
  int num_threads_;
  std::vector<Unit> units_;
  std::vector<double> probabilities_;  // by unit
  std::vector<int32_t> unit_at_;       // by place, pair after pair
  std::vector<size_t> first_place_;    // by pair; one more at the end
};

}  // namespace

UnitAlignment AlignUnits(std::span<const SpellingPair> pairs, const AlignmentOptions& options, int num_threads) {
  return Aligner(pairs, options, num_threads).Run();
}

}  // namespace antiphon::g2p
