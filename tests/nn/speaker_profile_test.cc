#include "nn/speaker_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "temporary_folder.h"

namespace antiphon::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ProfileFile : public ::testing::Test {
 protected:
  ProfileFile() {
    profile_.parts.resize(2);
    profile_.parts[0].scale = Matrix(1, 3);
    profile_.parts[1].matrix = Matrix(3, 3);
    profile_.parts[1].offset = Matrix(1, 3);
  }
  std::string LoadError() const {
    const std::filesystem::path file = folder_ / "anna.safetensors";
    profile_.Save(file);
    try {
      SpeakerProfile::Load(file);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  testing::TemporaryFolder folder_;
  SpeakerProfile profile_;
};

TEST_F(ProfileFile, FactorsThatAreNotFiniteAreRefusedByFileAndPart) {
  EXPECT_EQ(LoadError(), "");
  const std::vector<std::pair<float*, std::string>> places = {{&profile_.parts[0].scale(0, 2), "part 0"},
                                                              {&profile_.parts[1].matrix(2, 1), "part 1"},
                                                              {&profile_.parts[1].offset(0, 0), "part 1"}};
  for (const auto& [place, part] : places) {
    for (const float bad : {NAN, -std::numeric_limits<float>::infinity()}) {
      *place = bad;
      EXPECT_THAT(LoadError(), AllOf(HasSubstr("anna.safetensors"), HasSubstr(part), HasSubstr("not finite")));
    }
    *place = 0;
  }
}

TEST_F(ProfileFile, OneThatChangesNothingIsRefused) {
  profile_.parts.clear();
  EXPECT_THAT(LoadError(), AllOf(HasSubstr("anna.safetensors"), HasSubstr("no parts")));
}

}  // namespace
}  // namespace antiphon::nn
