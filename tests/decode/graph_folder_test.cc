// A graph that is there stays whole until another one is, whatever happens while that is written.
#include "decode/graph/graph_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

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
  for (const auto& [name, text] : files) WriteFileAtomically(folder.New(name), std::string_view(text));
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
  fs::remove(folder_ / "words.txt");
  fs::create_directories(folder_ / "words.txt/in the way");
  GraphFolder folder(folder_.path());
  WriteNew(folder, kNewFiles);
  EXPECT_THROW(folder.Commit(), IoError);
  EXPECT_FALSE(fs::exists(folder_ / "graph.json"));
}

// As on a disk that is full when the last file is written.
TEST(GraphsThatAreThere, StayWholeUntilOthersAre) {
  const hmm::Lexicon lexicon = ToyLexicon();
  const hmm::Lexicon other =
      hmm::Lexicon::Parse(std::string(kLexicon) + "TEA T IY\n", "other.txt", lexicon.options(), lexicon.phones());
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts ? "in parts" : "static");
    const testing::TemporaryFolder folder;
    const auto save = [&](const hmm::Lexicon& words) {
      fst::StdVectorFst grammar;
      grammar.AddState();
      grammar.SetStart(0);
      grammar.SetFinal(0, 0.5F);
      for (int32_t word = 1; word <= words.num_words(); ++word) grammar.AddArc(0, {word, word, 1.0F, 0});
      if (in_parts) {
        const GraphParts parts(BuildLexiconGraph(model, words, {}),
                               WordAutomaton::FromFst(grammar, words.backoff_word(), 10));
        return SaveParts(parts, model, words, nullptr, "test", {}, folder.path());
      }
      fst::StdVectorFst graph;
      BuildGraphFst(model, words, grammar, {}, &graph);
      SaveGraph(graph, model, words, "test", {}, folder.path());
    };
    save(lexicon);
    const GraphFiles before = GraphFilesIn(folder.path());
    const fs::path in_the_way = TemporaryPath(folder / "graph.json");
    fs::create_directories(in_the_way / "folder");
    EXPECT_THROW(save(other), IoError);
    EXPECT_EQ(GraphFilesIn(folder.path()), before);
    fs::remove_all(in_the_way);
    save(other);
    const GraphFiles after = GraphFilesIn(folder.path());
    ASSERT_EQ(after.size(), before.size());
    for (const auto& [name, text] : before) EXPECT_NE(after.at(name), text) << name;
    EXPECT_NO_THROW(Graph::Load(folder.path(), model));
  }
}

}  // namespace
}  // namespace antiphon::decode
