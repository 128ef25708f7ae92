// Which messages between processes go in pieces, by what carries them.
//
// Over TCP by Open MPI's own protocol (ob1), messages to other machines go in pieces that it sends without asking the
// receiver first. It asks for larger ones, and the answer waits behind what the receiver itself sends: two ranks that
// exchange gradients would send one after the other on links that carry both at once. Elsewhere (UCX, other MPIs)
// messages go whole, by the transport's own rendezvous: pieces were measured there and gain nothing
// (docs/results/simulation.md).
#pragma once

#include <cstddef>

namespace antiphon::comm {

/// Below the 64 KiB up to which Open MPI sends over TCP without asking first, its own headers included.
inline constexpr size_t kPieceBytes = 64000;

/// Whether this MPI moves messages to other machines over TCP by ob1. `has`: whether it knows a control variable of
/// that name. Of components that were not selected (UCX moves messages otherwise) Open MPI forgets the variables; other
/// MPIs have others.
template <class HasVariable>
bool PiecesHelp(const HasVariable& has) {
  return has("pml_ob1_priority") && has("btl_tcp_links");
}

/// Within a machine MPI copies from memory to memory, which needs no pieces.
inline bool GoesInPieces(bool pieces_help, bool same_machine, size_t bytes) {
  return pieces_help && !same_machine && bytes > kPieceBytes;
}

}  // namespace antiphon::comm
