// Averages over the last part of a run, its last half and so on, against means of the models that belong there.
#include "train/kept_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/config.h"
#include "temporary_folder.h"

namespace antiphon::train {
namespace {

nn::Network OneLayer() { return nn::Network(Config::Parse("[[layer]]\ntype = 'affine'\n", "network"), 2, 3, 1); }

class KeptModelsTest : public ::testing::Test {
 protected:
  // Steps first … last of 100; the model's values are the step.
  void Steps(KeptModels& kept, int first, int last) {
    for (int step = first; step <= last; ++step) {
      std::fill(network_.values().begin(), network_.values().end(), static_cast<float>(step));
      position_.step = step;
      kept.AverageStep(network_, step / 100.0, position_);
    }
  }
  static float MeanOf(const std::vector<float>& values) {
    EXPECT_EQ(*std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end()));
    return values.front();
  }
  nn::Network network_ = OneLayer();
  Position position_;
  AverageOptions options_{.share = 0.4, .halvings = 2, .every_steps = 5};
};

TEST_F(KeptModelsTest, AverageTheLastPartAndItsLastHalves) {
  KeptModels kept(options_, false);
  Steps(kept, 1, 100);
  EXPECT_EQ(position_.averaged, (std::vector<int64_t>{9, 5, 3}));
  ASSERT_EQ(kept.averages().size(), 3u);
  EXPECT_FLOAT_EQ(MeanOf(kept.averages()[0]), 80);  // steps 60, 65 … 100
  EXPECT_FLOAT_EQ(MeanOf(kept.averages()[1]), 90);  // 80 … 100
  EXPECT_FLOAT_EQ(MeanOf(kept.averages()[2]), 95);  // 90, 95, 100
}

// Of a run of several ranks, some of which were servers and averaged nothing.
TEST_F(KeptModelsTest, GoOnFromTheRanksThatAveragedAny) {
  const testing::TemporaryFolder folder;
  KeptModels then(options_, false);
  Steps(then, 1, 83);
  std::vector<SafetensorsReader> ranks;
  for (const char* rank : {"worker", "server"}) {
    SafetensorsWriter writer;
    SaveNetwork(writer, "network.", network_);
    if (ranks.empty()) then.Save(writer, network_, position_);
    writer.Write(folder / rank);
    ranks.emplace_back(folder / rank);
  }
  KeptModels now(options_, false);
  now.LoadFolded(ranks, network_, position_);
  ASSERT_EQ(now.averages().size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    for (const nn::Parameter* p : network_.parameters()) {
      const auto at = static_cast<size_t>(p->offset);
      EXPECT_EQ(now.averages()[k][at], then.averages()[k][at]) << p->name << " of average " << k;
    }
  }
}

TEST_F(KeptModelsTest, LeaveOutAModelThatIsNotFinite) {
  KeptModels kept(options_, false);
  Steps(kept, 1, 64);
  network_.values()[2] = NAN;
  position_.step = 65;
  kept.AverageStep(network_, 0.65, position_);
  Steps(kept, 66, 70);
  EXPECT_EQ(position_.averaged, (std::vector<int64_t>{2}));
  EXPECT_FLOAT_EQ(MeanOf(kept.averages()[0]), 65);  // steps 60 and 70
}

TEST_F(KeptModelsTest, GoOnWhereACheckpointStands) {
  KeptModels whole(options_, false);
  Steps(whole, 1, 100);
  position_ = {};
  KeptModels first(options_, false);
  Steps(first, 1, 83);
  const testing::TemporaryFolder folder;
  SafetensorsWriter writer;
  first.Save(writer, network_, position_);
  position_.Save(writer);
  writer.Write(folder / "checkpoint");
  const SafetensorsReader reader(folder / "checkpoint");
  Position resumed;
  resumed.Load(reader);
  EXPECT_EQ(resumed.averaged, (std::vector<int64_t>{5, 1}));
  KeptModels second(options_, false);
  second.Load(reader, network_, resumed);
  position_ = resumed;
  Steps(second, 84, 100);
  for (size_t k = 0; k < 3; ++k) {
    for (const nn::Parameter* p : network_.parameters()) {
      for (int64_t i = 0; i < p->value.size(); ++i) {
        const int64_t at = p->offset + i / p->value.cols() * p->value.cols() + i % p->value.cols();
        ASSERT_EQ(second.averages()[k][at], whole.averages()[k][at]) << p->name << " of average " << k;
      }
    }
  }
}

}  // namespace
}  // namespace antiphon::train
