// Which messages go in pieces; that MPI's variables say what carries them is tests/cluster/transport_test.py's matter.
#include "comm/mpi/piece_rule.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace antiphon::comm {
namespace {

bool PiecesHelpWith(const std::set<std::string>& variables) {
  return PiecesHelp([&](const char* name) { return variables.contains(name); });
}

TEST(PieceRule, PiecesHelpOverTcpByOpenMpisOwnProtocolAlone) {
  EXPECT_TRUE(PiecesHelpWith({"pml_ob1_priority", "btl_tcp_links", "btl_vader_eager_limit"}));
  EXPECT_FALSE(PiecesHelpWith({"pml_ob1_priority", "btl_vader_eager_limit"})) << "shared memory alone";
  EXPECT_FALSE(PiecesHelpWith({"pml_ob1_priority", "btl_openib_eager_limit"})) << "InfiniBand";
  EXPECT_FALSE(PiecesHelpWith({"pml_ucx_tls", "btl_tcp_links"})) << "UCX has a rendezvous of its own";
  EXPECT_FALSE(PiecesHelpWith({"pml_cm_priority", "mtl_psm2_priority"})) << "Omni-Path";
  EXPECT_FALSE(PiecesHelpWith({"MPIR_CVAR_CH4_NETMOD"})) << "MPICH";
}

TEST(PieceRule, WhatIsShortOrStaysOnTheMachineGoesWhole) {
  EXPECT_TRUE(GoesInPieces(true, false, kPieceBytes + 8));
  EXPECT_FALSE(GoesInPieces(true, false, kPieceBytes));
  EXPECT_FALSE(GoesInPieces(true, true, 100 * kPieceBytes));
  EXPECT_FALSE(GoesInPieces(false, false, 100 * kPieceBytes));
}

TEST(PieceRule, APieceIsSentWithoutAsking) {
  constexpr size_t kEagerLimit = 64 * 1024, kLargestHeader = 256;
  EXPECT_LE(kPieceBytes + kLargestHeader, kEagerLimit);
}

}  // namespace
}  // namespace antiphon::comm
