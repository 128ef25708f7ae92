#include "base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/finally.h"

namespace antiphon {
namespace {

TEST(OpenFileLimit, IsRaisedToTheHardOneUpToAMillion) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const Finally restore([&] { ::setrlimit(RLIMIT_NOFILE, &before); });
  const rlimit low{.rlim_cur = std::min<rlim_t>(before.rlim_max, 200), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(OpenFileLimit(), static_cast<int64_t>(low.rlim_cur));
  RaiseOpenFileLimit();
  EXPECT_EQ(OpenFileLimit(), static_cast<int64_t>(std::min<rlim_t>(before.rlim_max, 1 << 20)));
}

}  // namespace
}  // namespace antiphon
