#include "parallel/kept_minibatch.h"

#include <gtest/gtest.h>

#include "math/safetensors.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

class NumberedRows : public nn::SequenceLoss {
 public:
  nn::LossResult Compute(ConstMatrixView, const nn::LossTargets&, MatrixView) override { return {}; }
  std::vector<int64_t> Rows() const override { return rows; }
  std::vector<int64_t> RowsOfStreams(int, int, int) const override { return rows; }
  void SetRows(std::vector<int64_t> kept) override { rows = std::move(kept); }
  std::vector<int64_t> rows;
};

TEST(KeptMinibatch, KnowsTheRowsOfItsCriterionAfterACheckpoint) {
  const testing::TemporaryFolder folder;
  NumberedRows criterion;
  criterion.rows = {7, -1, 30, int64_t{1} << 40};
  const Matrix features(3, 2);
  const std::vector<int32_t> pdf_ids = {1, 0, 2};
  StepInput input;
  input.features = features;
  input.targets = {.pdf_ids = pdf_ids, .sequence = &criterion};
  const KeptMinibatch kept(input);
  SafetensorsWriter writer;
  kept.Save(writer, "kept.");
  writer.Write(folder / "kept.safetensors");

  const SafetensorsReader reader(folder / "kept.safetensors");
  const KeptMinibatch loaded(reader, "kept.");
  criterion.rows.clear();
  const nn::LossTargets targets = loaded.targets(&criterion);
  EXPECT_EQ(targets.sequence, &criterion);
  EXPECT_EQ(criterion.rows, (std::vector<int64_t>{7, -1, 30, int64_t{1} << 40}));
  EXPECT_EQ(loaded.targets().sequence, nullptr);
}

}  // namespace
}  // namespace antiphon::parallel
