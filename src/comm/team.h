// The ranks of a communicator as a team (base/team.h).
//
// Deadline: the communicator's, for each wait; a window of long utterances may take a while. Threads: that of the rank.
#pragma once

#include "base/team.h"
#include "comm/communicator.h"

namespace antiphon::comm {

class CommunicatorTeam : public Team {
 public:
  explicit CommunicatorTeam(Communicator& comm) : comm_(comm) {}
  int size() const override { return comm_.world_size(); }
  int index() const override { return comm_.rank(); }
  std::vector<std::string> Exchange(std::string mine, Spread to) override;

 private:
  Communicator& comm_;
};

}  // namespace antiphon::comm
