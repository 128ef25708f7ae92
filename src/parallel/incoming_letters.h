// Letters of a pool of parameter servers on their way to a rank: heads, behind which what belongs to them comes, on
// slow links much later. Whoever serves beside the arithmetic does not wait for that.
//
// Letters of one rank are handed out in the order sent. Threads: one at a time. Errors: those of the communicator.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "comm/communicator.h"
#include "parallel/server_pool_letter.h"

namespace antiphon::parallel {

class IncomingLetters {
 public:
  static constexpr int kHeadTag = 1 << 25;
  static constexpr int kPayloadTag = kHeadTag + 1;
  /// Waits for a message; nullopt if it will not come, as a rank was lost.
  using Receive = std::function<std::optional<comm::Message>(int source, int tag)>;

  IncomingLetters(comm::Communicator& comm, Receive receive) : comm_(comm), receive_(std::move(receive)) {}

  /// A letter all of which is here, without waiting; nullopt: there is none.
  std::optional<PoolLetter> Next();
  /// Waits for one; nullopt if a rank was lost meanwhile.
  std::optional<PoolLetter> Await();
  /// Of a lost rank no more comes.
  void Drop(int source);
  /// When a round begins. Heads of lost ranks may be here, that came after Drop; ranks may have other numbers now.
  void Clear() { letters_.clear(); }

 private:
  bool TakeHead();
  std::optional<PoolLetter> FirstWhole();
  std::optional<PoolLetter> TakeOut(const std::deque<PoolLetter>::iterator& place);

  comm::Communicator& comm_;
  Receive receive_;
  std::deque<PoolLetter> letters_;  // in the order of their heads
};

}  // namespace antiphon::parallel
