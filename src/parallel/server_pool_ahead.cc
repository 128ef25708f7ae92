// The part of ServerPool whose pulls travel while the worker computes.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "parallel/float_bytes.h"
#include "parallel/server_pool.h"

namespace antiphon::parallel {
namespace {

// `now`, which was `before`, becomes `pulled` with the same change, which takes the place of `before`.
void Carry(std::span<const float> pulled, std::span<float> before, std::span<float> now) {
  CHECK_EQ(before.size(), now.size());
  for (size_t i = 0; i < now.size(); ++i) {
    before[i] = now[i] - before[i];
    now[i] = pulled[i] + before[i];
  }
}

}  // namespace

// Also of the own shard, whose values are kept as an answer: it goes on before they are taken.
void ServerPool::AskAhead() {
  asked_ahead_ = true;
  AskForValues();
}

void ServerPool::TakeAhead() {
  asked_.resize(pulled_.size());
  for (int server = 0; server < servers_; ++server) {
    Letter answer = WaitFor(Kind::kValues, FirstServer() + server);
    pulled_versions_[static_cast<size_t>(server)] = answer.number;
    asked_[static_cast<size_t>(server)] = std::move(answer.owned);
  }
  asked_ahead_ = false;
}

// The answers hold this worker's pushes up to the last exchange, as messages to one server arrive in order; pulled_ is
// its model of then.
void ServerPool::PullAhead(std::span<float> model, bool apply) {
  const Lock lock(mutex_);
  CHECK(options_.ahead);
  const bool sums = options_.rule == ServerRule::kSum;
  TakeAhead();
  if (apply && sums) ++clock_;
  for (int s = 0; s < servers_; ++s) {
    const std::span<float> now = Part(s, model);
    std::vector<std::byte>& before = pulled_[static_cast<size_t>(s)];
    const std::span<const float> pulled = AsFloats(asked_[static_cast<size_t>(s)]);
    CHECK_EQ(pulled.size(), now.size());
    if (apply && sums) {
      Carry(pulled, AsFloats(before), now);
      comm_.Handled(comm::Handling::kAdd, 2 * before.size());
      PushAway(s, before);
    } else {
      std::copy(pulled.begin(), pulled.end(), now.begin());
    }
    if (!sums) continue;
    const std::span<const std::byte> bytes = std::as_bytes(now);
    before.assign(bytes.begin(), bytes.end());
    comm_.Handled(comm::Handling::kCopy, bytes.size());
  }
  AskAhead();
}

}  // namespace antiphon::parallel
