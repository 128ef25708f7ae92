// Model files cut short or changed anywhere are refused, with the file's name, before anybody computes with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "nn/model.h"
#include "temporary_folder.h"

namespace antiphon {
namespace {

using antiphon::testing::TemporaryFolder;
using ::testing::HasSubstr;

nn::Model SmallModel() {
  nn::Model model;
  model.network = nn::Network(Config::Parse("[[layer]]\ntype = 'affine'\ndim = 3\n[[layer]]\ntype = 'sigmoid'\n"
                                            "[[layer]]\ntype = 'affine'\n",
                                            "network"),
                              4, 2, 1);
  model.feature_dim = 4;
  model.log_priors = {-0.5f, -1.0f};
  model.descriptions["seed"] = "1";
  return model;
}

// What Load says of a file with these bytes.
std::string Refusal(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
  try {
    nn::Model::Load(file);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(DamagedModel, IsWholeAtFirst) {
  TemporaryFolder folder;
  SmallModel().Save(folder / "m.safetensors");
  EXPECT_EQ(nn::Model::Load(folder / "m.safetensors").descriptions.at("seed"), "1");
}

TEST(DamagedModel, IsRefusedWhereverItWasCut) {
  TemporaryFolder folder;
  SmallModel().Save(folder / "m.safetensors");
  const std::string bytes = ReadFile(folder / "m.safetensors");
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    ASSERT_THAT(Refusal(folder / "cut.safetensors", bytes.substr(0, size)), HasSubstr("cut.safetensors")) << size;
  }
  EXPECT_THAT(Refusal(folder / "cut.safetensors", bytes.substr(0, bytes.size() - 1)), HasSubstr("cut.safetensors"));
  EXPECT_THAT(Refusal(folder / "cut.safetensors", bytes + "x"), HasSubstr("cut.safetensors"));
}

TEST(DamagedModel, IsRefusedWhateverByteChanged) {
  TemporaryFolder folder;
  SmallModel().Save(folder / "m.safetensors");
  const std::string bytes = ReadFile(folder / "m.safetensors");
  for (size_t i = 0; i < bytes.size(); ++i) {
    // Blanks that pad the header mean nothing; all else does.
    if (bytes[i] == ' ') continue;
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    ASSERT_THAT(Refusal(folder / "changed.safetensors", changed), HasSubstr("changed.safetensors")) << "byte " << i;
  }
}

}  // namespace
}  // namespace antiphon
