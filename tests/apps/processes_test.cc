// How many threads a process computes with, beside others on its machine.
#include "processes.h"

#include <gtest/gtest.h>

namespace antiphon::app {
namespace {

TEST(ShareOfCores, IsAProcessesPartOfTheMachineOrWhatItMayUse) {
  EXPECT_EQ(ShareOfCores(16, 1, 16), 16);
  EXPECT_EQ(ShareOfCores(16, 4, 16), 4) << "not bound";
  EXPECT_EQ(ShareOfCores(16, 4, 1), 1) << "bound to a core by mpirun";
  EXPECT_EQ(ShareOfCores(64, 1, 8), 8) << "eight cores granted by a control group";
  EXPECT_EQ(ShareOfCores(16, 3, 16), 5);
  EXPECT_EQ(ShareOfCores(2, 8, 2), 1) << "more processes than cores";
}

}  // namespace
}  // namespace antiphon::app
