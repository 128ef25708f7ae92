// Programs started without a shell: what they see of us, what we hear of them, and that they end.
#include "base/spawn.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>

#include "base/cancel.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/running_program.h"
#include "base/scratch_file.h"
#include "base/scratch_folder.h"

namespace antiphon {
namespace {

constexpr double kPatienceS = 60;

std::string AllOutput(RunningProgram& program) {
  std::string text;
  std::array<std::byte, 256> piece;
  for (;;) {
    const auto count = program.Read(piece, kPatienceS);
    if (!count || *count == 0) return text;
    text.append(reinterpret_cast<const char*>(piece.data()), *count);
  }
}

std::unique_ptr<RunningProgram> Shell(const ScratchFolder& folder, const std::string& script) {
  return RunningProgram::Start({"sh", "-c", script}, folder.path() / "messages.txt");
}

TEST(RunProgram, ReturnsTheExitStatusAndKeepsTheMessages) {
  const ScratchFolder folder;
  const auto messages = folder.path() / "messages.txt";
  EXPECT_EQ(RunProgram({"sh", "-c", "echo no such tune >&2; exit 7"}, messages), 7);
  EXPECT_EQ(ReadFile(messages), "no such tune\n");
}

TEST(RunProgram, GivesArgumentsAsTheyAre) {
  EXPECT_EQ(RunProgram({"sh", "-c", R"(test "$1" = 'a  b; exit 3 "$HOME"')", "sh", "a  b; exit 3 \"$HOME\""}), 0);
}

TEST(RunProgram, TellsAMissingProgramFromOneThatFails) {
  EXPECT_EQ(RunProgram({"antiphon-no-such-program"}), std::nullopt);
  EXPECT_THROW(RunProgram({"/"}), IoError);  // is there, and cannot be run
}

TEST(RunProgram, EndedByASignalIsCancelled) { EXPECT_THROW(RunProgram({"sh", "-c", "kill -TERM $$"}), Cancelled); }

TEST(RunProgram, EndsWithTheRequestToStopIfToldSo) {
  RequestCancel();
  EXPECT_THROW(RunProgram({"sleep", "600"}, {}, OnCancel::kEnd), Cancelled);
  EXPECT_THROW(RunProgram({"sleep", "600"}, {}, OnCancel::kEndAlone), Cancelled);
  EXPECT_EQ(RunProgram({"sh", "-c", "exit 4"}), 4);  // this one hears of it itself, and is waited for
  ResetCancel();
  EXPECT_EQ(RunProgram({"sh", "-c", "exit 5"}, {}, OnCancel::kEnd), 5);
}

TEST(RunProgram, WritesIntoAFileWithoutAName) {
  const FileDescriptor file = NewScratchFile();
  EXPECT_EQ(RunProgram({"sh", "-c", "echo words"}, {}, OnCancel::kWait, file.get()), 0);
  EXPECT_EQ(ReadFile(PathOf(file)), "words\n");
  // As ffmpeg does, which opens it by its name and goes back to complete the header.
  EXPECT_EQ(RunProgram({"sh", "-c", "echo other > /dev/stdout"}, {}, OnCancel::kWait, file.get()), 0);
  EXPECT_EQ(ReadFile(PathOf(file)), "other\n");
  EXPECT_EQ(std::filesystem::hard_link_count(PathOf(file)), 0U);
}

// What a decoder of the server starts belongs to the decoder's group, which the server ends.
TEST(RunProgram, StaysInOurGroupIfToldSo) {
  for (const OnCancel on_cancel : {OnCancel::kWait, OnCancel::kEnd, OnCancel::kEndAlone}) {
    const std::string same = "set -- $(cat /proc/$$/stat); test $5 = " + std::to_string(::getpgrp());
    EXPECT_EQ(RunProgram({"sh", "-c", same}, {}, on_cancel) == 0, on_cancel != OnCancel::kEnd);
  }
}

TEST(RunningProgram, IsReadToItsEnd) {
  const ScratchFolder folder;
  const auto program = Shell(folder, "cat; echo words; echo why >&2; exit 3");
  ASSERT_NE(program, nullptr);
  EXPECT_EQ(AllOutput(*program), "words\n");  // and cat found nothing on its standard input
  EXPECT_EQ(program->ExitStatus(kPatienceS), 3);
  EXPECT_EQ(ReadFile(folder.path() / "messages.txt"), "why\n");
}

TEST(RunningProgram, SilenceIsNotTheEnd) {
  const ScratchFolder folder;
  const auto program = Shell(folder, "exec sleep 600");
  std::array<std::byte, 8> piece;
  EXPECT_EQ(program->Read(piece, 0.01), std::nullopt);
  EXPECT_EQ(program->ExitStatus(0.01), std::nullopt);
}

TEST(RunningProgram, EndsWithItsOwnerEvenIfItDoesNotListen) {
  const ScratchFolder folder;
  auto program = Shell(folder, "trap '' TERM; echo $$; while :; do sleep 0.01; done");
  std::array<std::byte, 32> piece;
  const auto count = program->Read(piece, kPatienceS);
  ASSERT_TRUE(count && *count > 0);
  const pid_t process = std::stoi(std::string(reinterpret_cast<const char*>(piece.data()), *count));
  EXPECT_EQ(::kill(process, 0), 0);
  program.reset();
  EXPECT_NE(::kill(process, 0), 0);
}

TEST(Spawn, SeesNoOtherFileOfOurs) {
  const ScratchFolder folder;
  const auto file = folder.path() / "list.txt";
  const int ours = ::open("/dev/null", O_RDONLY);  // a program inherits it, unless told not to
  for (const bool close_others : {false, true}) {
    const FileDescriptor list = OpenForProgram(file, O_WRONLY | O_CREAT | O_TRUNC);
    const std::string script = "test -e /proc/self/fd/" + std::to_string(ours) + " && echo seen || echo hidden";
    const auto process = Spawn({"sh", "-c", script}, {.output = list.get(), .close_others = close_others});
    ASSERT_TRUE(process);
    EXPECT_EQ(::waitpid(*process, nullptr, 0), *process);
    EXPECT_EQ(ReadFile(file), close_others ? "hidden\n" : "seen\n");
  }
  ::close(ours);
}

TEST(Spawn, AGroupOfItsOwnEndsTogether) {
  const ScratchFolder folder;
  Pipe pipe = NewPipe("sh");
  const auto process = Spawn({"sh", "-c", "sleep 600 & echo; wait"}, {.output = pipe.write.get(), .own_group = true});
  ASSERT_TRUE(process);
  pipe.write.Close();
  char byte = 0;
  ASSERT_EQ(::read(pipe.read.get(), &byte, 1), 1);
  ASSERT_EQ(::kill(-*process, SIGKILL), 0);
  EXPECT_EQ(::read(pipe.read.get(), &byte, 1), 0);  // both ends of the pipe are closed: sleep is gone, too
  EXPECT_EQ(::waitpid(*process, nullptr, 0), *process);
}

}  // namespace
}  // namespace antiphon
