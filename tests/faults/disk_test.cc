// Full disks and read-only folders: a clear error, the old file as it was, nothing half-written left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "data/archive.h"
#include "data/frame_store.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_parts.h"
#include "decode/graph/parts_builder.h"
#include "hmm/graph/openfst.h"
#include "math/safetensors.h"
#include "small_disk.h"
#include "small_gmm.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;
using antiphon::testing::SmallDisk;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kDiskKib = 64;
constexpr int kRows = 40000;  // 160 kB as floats: more than the disk

struct Writer {
  const char* name;
  std::function<void(const fs::path& folder, int rows)> write;
};

struct TwoWords {
  TwoWords() {
    hmm::LexiconOptions options;
    options.silence_phones = {"SIL"};
    options.position_dependent = false;
    lexicon = hmm::Lexicon::Parse("ONE A\nTWO B\n", "lexicon.txt", options, model.phones());
  }
  hmm::HmmModel model = antiphon::testing::SmallAdaptiveModel(5).hmm;
  hmm::Lexicon lexicon;
};

// So many arcs, one after the other.
fst::StdVectorFst Chain(int arcs) {
  fst::StdVectorFst chain;
  for (int i = 0; i <= arcs; ++i) chain.AddState();
  chain.SetStart(0);
  chain.SetFinal(arcs, 0.0F);
  for (int i = 0; i < arcs; ++i) chain.AddArc(i, {1, 1, 0.0F, i + 1});
  return chain;
}

std::vector<Writer> Writers() {
  return {
      {"WriteFileAtomically",
       [](const fs::path& folder, int rows) {
         WriteFileAtomically(folder / "plain", std::string(static_cast<size_t>(rows) * 4, 'x'));
       }},
      {"TableWriter",
       [](const fs::path& folder, int rows) {
         data::TableWriter<Matrix> writer(folder / "table.ark");
         writer.Write("utt1", Matrix(rows, 1));
         writer.Close();
       }},
      {"SafetensorsWriter",
       [](const fs::path& folder, int rows) {
         SafetensorsWriter writer;
         writer.Add("values", ConstMatrixView(Matrix(rows, 1)));
         writer.Write(folder / "tensors.safetensors");
       }},
      {"SaveGraph",
       [](const fs::path& folder, int rows) {
         const TwoWords two;
         decode::SaveGraph(Chain(rows), two.model, two.lexicon, "test", {}, folder / "graph");
       }},
      // The language model is what finds no room: states and pronunciations, which go before it, do.
      {"SaveParts",
       [](const fs::path& folder, int rows) {
         const TwoWords two;
         const decode::GraphParts parts(
             decode::BuildLexiconGraph(two.model, two.lexicon, {}),
             decode::WordAutomaton::FromFst(Chain(rows), two.lexicon.backoff_word(), 10 * kRows));
         decode::SaveParts(parts, two.model, two.lexicon, nullptr, "test", {}, folder / "graph");
       }},
      {"FrameStoreWriter",
       [](const fs::path& folder, int rows) {
         data::FrameStoreWriter writer(folder / "store", 4, 10);
         const std::vector<int32_t> pdfs(static_cast<size_t>(rows));
         writer.Add("utt1", "speaker", Matrix(rows, 4), pdfs);
         writer.Finish();
       }},
  };
}

std::string Contents(const fs::path& folder) {
  std::string contents;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) contents += file.filename().string() + ":" + ReadFile(file) + "\n";
  return contents;
}

TEST(FullDisk, IsSaidAndLeavesTheOldFile) {
  for (const Writer& writer : Writers()) {
    SCOPED_TRACE(writer.name);
    SmallDisk disk(kDiskKib);
    if (!disk.mounted()) GTEST_SKIP() << "mounting a small disk needs root";
    writer.write(disk.path(), 10);
    const std::string before = Contents(disk.path());
    try {
      writer.write(disk.path(), kRows);
      FAIL() << "a file larger than the disk was written";
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr("disk is full"));
      EXPECT_THAT(e.what(), HasSubstr(disk.path().string()));
    }
    EXPECT_EQ(Contents(disk.path()), before);
  }
}

TEST(ReadOnlyFolder, IsSaid) {
  for (const Writer& writer : Writers()) {
    SCOPED_TRACE(writer.name);
    SmallDisk disk(kDiskKib);
    if (!disk.mounted() || !disk.MakeReadOnly()) GTEST_SKIP() << "mounting a read-only disk needs root";
    try {
      writer.write(disk.path(), 10);
      FAIL() << "something was written to a read-only folder";
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), AnyOf(HasSubstr("Read-only"), HasSubstr("no permission")));
      EXPECT_THAT(e.what(), HasSubstr(disk.path().string()));
    }
  }
}

}  // namespace
}  // namespace antiphon
