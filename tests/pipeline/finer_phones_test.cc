// Boundaries to a row of the features, of phones that a network found in frames of three rows.
#include "pipeline/finer_phones.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/file.h"
#include "nn/model.h"
#include "small_gmm.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

constexpr int kDim = 5;
constexpr int kSubsampling = 3;

int32_t PdfOf(const hmm::HmmModel& hmm, const std::string& phone, int state) {
  const int32_t window[] = {hmm.phones().Id(phone)};
  return hmm.transitions().EntryPdf(hmm.TransitionState(window, state));
}

// Far from each other in the features themselves, but for the states of a pause; deltas say nothing.
hmm::GmmSet ClearSet(const hmm::HmmModel& hmm) {
  const int pdfs = hmm.num_pdfs();
  std::vector<int32_t> first;
  for (int pdf = 0; pdf <= pdfs; ++pdf) first.push_back(pdf);
  Matrix means = testing::RandomMatrix(pdfs, 3 * kDim, 3, 10), variances(pdfs, 3 * kDim);
  for (int64_t row = 0; row < pdfs; ++row) {
    for (int64_t c = 0; c < 3 * kDim; ++c) {
      if (c >= kDim) means(row, c) = 0.0F;
      variances(row, c) = c < kDim ? 1.0F : 1e6F;
    }
  }
  const int32_t silence = PdfOf(hmm, "SIL", 0);
  for (int state = 1; state < 5; ++state) {
    for (int64_t c = 0; c < kDim; ++c) means(PdfOf(hmm, "SIL", state), c) = means(silence, c);
  }
  return {std::move(first), std::vector<float>(static_cast<size_t>(pdfs), 1.0F), std::move(means),
          std::move(variances)};
}

class FinerPhonesTest : public ::testing::Test {
 protected:
  FinerPhonesTest() : gaussians_(testing::SmallAdaptiveModel(kDim)) {
    gaussians_.gmm = ClearSet(gaussians_.hmm);
    gaussians_.first_pass = ClearSet(gaussians_.hmm);
    gaussians_.Save(folder_ / "gmm.safetensors");
    nn::Model network;
    network.feature_dim = 3 * kDim;
    network.network = nn::Network(
        Config::Parse("layer = [{type = 'splice', offsets = [-1, 0, 1], stride = 3}, {type = 'affine'}]", "net.toml"),
        network.feature_dim, gaussians_.hmm.num_pdfs(), 7);
    network.frame_subsampling = kSubsampling;
    network.hmm_json = gaussians_.hmm.ToJson();
    network.log_priors.assign(static_cast<size_t>(gaussians_.hmm.num_pdfs()), -1.0F);
    const MappedFile file(folder_ / "gmm.safetensors");
    network.speaker_model.assign(file.bytes().begin(), file.bytes().end());
    network.Save(folder_ / "net.safetensors");
    model_ = AcousticModel::Load(folder_ / "net.safetensors", {});
  }

  // So many more rows of a phone, evenly of its states.
  void Say(const std::string& phone, int rows) {
    const int states = phone == "SIL" ? 5 : 3;
    for (int row = 0; row < rows; ++row) pdfs_.push_back(PdfOf(gaussians_.hmm, phone, row * states / rows));
  }

  hmm::AlignedPhone Found(const std::string& phone, int begin, int end, int word_position) const {
    return {gaussians_.hmm.phones().Id(phone), begin, end - begin, word_position};
  }

  std::vector<hmm::AlignedPhone> Refine(std::vector<hmm::AlignedPhone> phones) const {
    Matrix features(std::ssize(pdfs_), kDim);
    const Matrix& means = gaussians_.first_pass->means();
    for (int64_t row = 0; row < features.rows(); ++row) {
      for (int64_t c = 0; c < kDim; ++c) features(row, c) = means(pdfs_[static_cast<size_t>(row)], c);
    }
    hmm::Alignment alignment;
    alignment.status = hmm::AlignStatus::kOk;
    alignment.phones = std::move(phones);
    return FinerPhones(*model_, alignment, features, nullptr, 0.01, {});
  }

  testing::TemporaryFolder folder_;
  hmm::GmmModel gaussians_;
  std::unique_ptr<AcousticModel> model_;
  std::vector<int32_t> pdfs_;  // of each row
};

TEST_F(FinerPhonesTest, AreWhereTheGaussiansHearThem) {
  ASSERT_TRUE(HasFinerPhones(*model_));
  Say("SIL", 31);
  Say("A", 21);
  Say("B", 18);
  Say("SIL", 40);
  Say("B", 13);
  Say("SIL", 12);
  const std::vector<hmm::AlignedPhone> coarse = {Found("SIL", 0, 10, -1), Found("A", 10, 17, 0),
                                                 Found("B", 17, 24, 1),   Found("SIL", 24, 37, -1),
                                                 Found("B", 37, 41, 2),   Found("SIL", 41, 45, -1)};
  const std::vector<hmm::AlignedPhone> fine = {Found("SIL", 0, 31, -1), Found("A", 31, 52, 0),
                                               Found("B", 52, 70, 1),   Found("SIL", 70, 110, -1),
                                               Found("B", 110, 123, 2), Found("SIL", 123, 135, -1)};
  EXPECT_EQ(Refine(coarse), fine);
}

TEST_F(FinerPhonesTest, StayWhereTheGaussiansAreLost) {
  Say("SIL", 31);
  Say("A", 21);
  Say("SIL", 60);
  Say("B", 20);
  Say("SIL", 30);
  // The network hears the first word a third of a second later, speech that the text lacks, and the last word.
  const std::vector<hmm::AlignedPhone> coarse = {Found("SIL", 0, 22, -1),  Found("A", 22, 28, 0),
                                                 Found("SIL", 28, 30, -1), Found("SIL", 30, 33, hmm::kForeignSpeech),
                                                 Found("SIL", 33, 38, -1), Found("B", 38, 43, 1),
                                                 Found("SIL", 43, 54, -1)};
  const std::vector<hmm::AlignedPhone> fine = {Found("SIL", 0, 66, -1),   Found("A", 66, 84, 0),
                                               Found("SIL", 84, 90, -1),  Found("SIL", 90, 99, hmm::kForeignSpeech),
                                               Found("SIL", 99, 112, -1), Found("B", 112, 132, 1),
                                               Found("SIL", 132, 162, -1)};
  EXPECT_EQ(Refine(coarse), fine);
}

}  // namespace
}  // namespace antiphon::pipeline
