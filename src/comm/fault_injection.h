// Faults at named moments, for tests: a process that kills, stops or delays itself, or sends a damaged message.
//
//   ANTIPHON_FAULT="kill rank=1 at=step step=40 once=/tmp/marker"
//
// The first word is what happens: "kill" (SIGKILL), "stop" (SIGSTOP), "slow" (waits for `seconds`, default 1), "hold"
// (waits as long, and until the file `until` is there, five minutes at most), "drag" (waits a tenth of a second at each
// step until `until` is there), "corrupt" (the process's next message to another one arrives damaged), "full" (none of
// the process's files grows beyond `bytes`, default 0, from then on, as on a full disk). `at`: "start", "step",
// "saving" (a checkpoint is about to be written), "checkpoint" (written, while the others may not have), "telling" (an
// epoch's record is being put together), "end"; `step`: from this step of the run on. `once`: a file that is made when
// it happens; where it is, nothing happens (any more). Several faults are separated by ";". Without the variable a
// fault point costs one comparison. Threads: any. Errors: UsageError for a variable that cannot be read.
#pragma once

#include <cstdint>
#include <string_view>

namespace antiphon::comm {

/// Rank `rank` has come to `point` at `step`.
void FaultPoint(std::string_view point, int rank, int64_t step);
/// Whether the message that is to be sent now shall be damaged; true once per fault.
bool TakeDamage();

}  // namespace antiphon::comm
