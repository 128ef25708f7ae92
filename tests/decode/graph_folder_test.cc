// A graph that is there stays whole until another one is, whatever happens while that is written.
#include "decode/graph/graph_folder.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "decode/toy_model.h"
#include "hmm/graph/openfst.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

using GraphFiles = std::map<std::string, std::string>;

// What the files in it hold, by their names.
GraphFiles GraphFilesIn(const fs::path& folder) {
  GraphFiles files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = ReadFile(entry.path());
  }
  return files;
}

void WriteNew(GraphFolder& folder, const GraphFiles& files) {
  for (const auto& [name, text] : files) folder.Write(name, text);
}

const GraphFiles kOldFiles = {{"graph.json", "old"}, {"HCLG.fst", "old"}, {"words.txt", "old"}};
const GraphFiles kNewFiles = {{"graph.json", "new"}, {"HCLG.fst", "new"}, {"words.txt", "new"}};

class GraphFolderTest : public ::testing::Test {
 protected:
  GraphFolderTest() {
    GraphFolder folder(folder_.path());
    WriteNew(folder, kOldFiles);
    folder.Commit();
  }
  testing::TemporaryFolder folder_;
};

TEST_F(GraphFolderTest, LeavesWhatIsThereUntilAllIsWritten) {
  EXPECT_EQ(GraphFilesIn(folder_.path()), kOldFiles);
  {
    GraphFolder folder(folder_.path());
    WriteNew(folder, kNewFiles);
  }
  EXPECT_EQ(GraphFilesIn(folder_.path()), kOldFiles) << "never committed";
  GraphFolder folder(folder_.path());
  WriteNew(folder, kNewFiles);
  folder.Commit();
  EXPECT_EQ(GraphFilesIn(folder_.path()), kNewFiles);
}

// Files of both would be no graph: graph.json comes last, and that of before goes first.
TEST_F(GraphFolderTest, HasNoDescriptionWhileFilesGetTheirNames) {
  {
    GraphFolder folder(folder_.path());
    WriteNew(folder, kNewFiles);
    fs::remove(folder_ / "words.txt");
    fs::create_directories(folder_ / "words.txt/in the way");
    EXPECT_THROW(folder.Commit(), IoError);
  }
  EXPECT_EQ(GraphFilesIn(folder_.path()), (GraphFiles{{"HCLG.fst", "new"}}));
}

TEST_F(GraphFolderTest, WritersAtOnceHaveFilesOfTheirOwn) {
  GraphFolder one(folder_.path()), other(folder_.path());
  WriteNew(one, {{"graph.json", "one"}, {"HCLG.fst", "one"}, {"words.txt", "one"}});
  WriteNew(other, kNewFiles);
  one.Commit();
  EXPECT_EQ(ReadFile(folder_ / "HCLG.fst"), "one");
  other.Commit();
  EXPECT_EQ(GraphFilesIn(folder_.path()), kNewFiles);
}

// As a process of another container sees it, which has this host's name but does not see this process: by the names of
// its files, their writer is dead.
TEST_F(GraphFolderTest, NobodyRemovesWhatIsWrittenAndNotNamedYet) {
  const pid_t ended = ::fork();
  ASSERT_GE(ended, 0);
  if (ended == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(ended, nullptr, 0), ended);
  GraphFolder folder(folder_.path());
  WriteNew(folder, kNewFiles);
  folder.NewChecksum("HCLG.fst");
  std::vector<std::pair<fs::path, fs::path>> names;  // here, and as it looks elsewhere
  for (const auto& [file, text] : GraphFilesIn(folder_.path())) {
    const std::string dead =
        std::regex_replace(file, std::regex("-[0-9]+-([0-9a-f]+.tmp)$"), "-" + std::to_string(ended) + "-$1");
    if (dead != file) names.emplace_back(folder_ / file, folder_ / dead);
  }
  ASSERT_EQ(names.size(), kNewFiles.size());
  for (const auto& [here, elsewhere] : names) fs::rename(here, elsewhere);
  RemoveStaleTemporaries(folder_.path());
  for (const auto& [here, elsewhere] : names) {
    ASSERT_TRUE(fs::exists(elsewhere)) << elsewhere;
    fs::rename(elsewhere, here);
  }
  folder.Commit();
  EXPECT_EQ(GraphFilesIn(folder_.path()), kNewFiles);
}

TEST_F(GraphFolderTest, WhatAKilledWriterLeftIsRemovedByTheNextOne) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    GraphFolder folder(folder_.path());
    WriteNew(folder, kNewFiles);
    ::raise(SIGKILL);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(GraphFilesIn(folder_.path()).size(), kOldFiles.size() + kNewFiles.size()) << "nothing was left behind";
  GraphFolder folder(folder_.path());
  WriteNew(folder, kNewFiles);
  folder.Commit();
  EXPECT_EQ(GraphFilesIn(folder_.path()), kNewFiles);
}

// What cannot be written is the last file: a description that is no UTF-8.
TEST(GraphsThatAreThere, StayWholeUntilOthersAre) {
  const hmm::Lexicon lexicon = ToyLexicon();
  const hmm::Lexicon other =
      hmm::Lexicon::Parse(std::string(kLexicon) + "TEA T IY\n", "other.txt", lexicon.options(), lexicon.phones());
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts ? "in parts" : "static");
    const testing::TemporaryFolder folder;
    const auto save = [&](const hmm::Lexicon& words, const std::string& source) {
      fst::StdVectorFst grammar;
      grammar.AddState();
      grammar.SetStart(0);
      grammar.SetFinal(0, 0.5F);
      for (int32_t word = 1; word <= words.num_words(); ++word) grammar.AddArc(0, {word, word, 1.0F, 0});
      if (in_parts) {
        const GraphParts parts(BuildLexiconGraph(model, words, {}),
                               WordAutomaton::FromFst(grammar, words.backoff_word(), 10));
        return SaveParts(parts, model, words, nullptr, source, {}, folder.path());
      }
      fst::StdVectorFst graph;
      BuildGraphFst(model, words, grammar, {}, &graph);
      SaveGraph(graph, model, words, source, {}, folder.path());
    };
    save(lexicon, "test");
    const GraphFiles before = GraphFilesIn(folder.path());
    EXPECT_THROW(save(other, "\xff"), std::exception);
    EXPECT_EQ(GraphFilesIn(folder.path()), before);
    save(other, "test");
    const GraphFiles after = GraphFilesIn(folder.path());
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, text] : before) EXPECT_NE(after.at(name), text) << name;
    EXPECT_NO_THROW(Graph::Load(folder.path(), model));
  }
}

}  // namespace
}  // namespace antiphon::decode
