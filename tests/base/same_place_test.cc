#include "base/same_place.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

TEST(RequireOutside, FindsWhatLiesInAFolderByWhateverName) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder / "out/train/sub");
  fs::create_directories(folder / "other");
  fs::create_directory_symlink(folder / "out/train", folder / "other/link");
  for (const char* inside : {"out/train", "out/train/model", "out/train/sub/not/there", "out/./train/../train/x",
                             "other/link/model", "other/../out/train/x"}) {
    EXPECT_THROW(RequireOutside(folder / inside, folder / "out/train"), UsageError) << inside;
  }
  for (const char* outside : {"out", "out/trained", "out/model", "other/model", "train"}) {
    EXPECT_NO_THROW(RequireOutside(folder / outside, folder / "out/train")) << outside;
  }
  EXPECT_NO_THROW(RequireOutside("", folder / "out"));
}

}  // namespace
}  // namespace antiphon
