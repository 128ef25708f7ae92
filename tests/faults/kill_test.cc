// kill -9 while files are written again and again: what is there is always one whole version.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/file.h"
#include "math/safetensors.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using antiphon::testing::TemporaryFolder;

Matrix Version(int number) {
  Matrix m(50, 200);
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (float& value : m.Row(r)) value = static_cast<float>(number);
  }
  return m;
}

// Writes versions first, first + 1, … until it is killed.
[[noreturn]] void WriteForever(const std::filesystem::path& file, int first, int ready) {
  for (int number = first;; ++number) {
    SafetensorsWriter writer;
    writer.Add("values", ConstMatrixView(Version(number)));
    writer.Write(file);
    if (::write(ready, "x", 1) != 1) ::_exit(1);
  }
}

TEST(Kill, LeavesOneWholeVersion) {
  TemporaryFolder folder;
  const auto file = folder / "model.safetensors";
  int last = 0;
  for (int round = 0; round < 25; ++round) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForever(file, last, ready[1]);
    // After some versions, at some point of the next one.
    char byte = 0;
    for (int i = 0; i <= round % 5; ++i) ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    for (int i = 0; i < 200 * round; ++i) ::getppid();
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ::close(ready[0]);
    ::close(ready[1]);

    const Matrix values = SafetensorsReader(file).ReadMatrix("values");
    const int number = static_cast<int>(values(0, 0));
    EXPECT_GE(number, last);
    for (int64_t r = 0; r < values.rows(); ++r) {
      for (const float value : values.Row(r)) ASSERT_EQ(value, static_cast<float>(number));
    }
    last = number;
  }
}

}  // namespace
}  // namespace antiphon
