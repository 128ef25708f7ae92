// A recording that a Recognizer and a decoding (pipeline/decode.h) both recognise, and whether they say the same.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "antiphon/recognizer.h"
#include "api/two_words.h"
#include "base/file.h"
#include "base/rounded_seconds.h"
#include "base/team.h"
#include "feat/audio.h"
#include "pipeline/decode.h"
#include "pipeline/speaker_transforms.h"
#include "train/warm_start.h"

namespace antiphon::testing {

class AsDecode : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  // Of the network or the Gaussians; on the features that a default front end has, dither included.
  std::string Model(bool network, const std::string& normalisation = "") {
    const std::string front_end = "kind = 'mfcc'\nsample-rate = 8000\nmel-bins = 10\nceps = 5\n";
    const std::string name = Path(network ? "net.safetensors" : "gmm.safetensors");
    if (network) {
      nn::Model model = nn::Model::Load(name);
      model.feature_config = front_end;
      if (!normalisation.empty()) model.descriptions[train::kNormalisation] = normalisation;
      model.Save(name);
    } else {
      hmm::GmmModel model = hmm::GmmModel::Load(name);
      model.features = front_end;
      model.Save(name);
    }
    return name;
  }

  // A file of noise, its middle third muted if asked for.
  std::string Speech(int seconds, bool muted = false) {
    feat::Waveform wave{Noise(kRateHz * seconds), kRateHz};
    for (float& x : wave.samples) x = std::clamp(std::round(x), -32768.0F, 32767.0F);
    const auto third = static_cast<std::ptrdiff_t>(wave.samples.size() / 3);
    if (muted) std::fill_n(wave.samples.begin() + third, third, 0.0F);
    feat::WriteWav(Path("noise.wav"), wave);
    return Path("noise.wav");
  }

  using Change = std::function<void(pipeline::DecodeRequest&)>;

  // An entry per utterance.
  std::vector<nlohmann::json> DecodeAll(const std::string& model, const std::string& speech,
                                        const Change& change = {}) {
    pipeline::DecodeRequest request;
    request.model = model;
    request.graph = Path("graph");
    request.data = speech;
    request.out = Path("out");
    request.recognize.search.beam = kSettings.beam;
    request.lattices = false;
    if (change) change(request);
    std::filesystem::remove_all(request.out);
    const pipeline::DecodeReport report = pipeline::Decode(request, Team::Alone(), 1);
    EXPECT_EQ(report.speaker_transforms, report.utterances);
    std::vector<nlohmann::json> entries;
    std::istringstream lines(ReadFile(Path("out/results.jsonl")));
    for (std::string line; std::getline(lines, line);) entries.push_back(nlohmann::json::parse(line));
    EXPECT_EQ(entries.size(), report.utterances);
    return entries;
  }

  nlohmann::json Decode(const std::string& model, const std::string& speech, const Change& change = {}) {
    const std::vector<nlohmann::json> all = DecodeAll(model, speech, change);
    EXPECT_EQ(all.size(), 1U);
    return all.at(0);
  }

  static void ExpectSame(const Recognition& recognised, const nlohmann::json& decoded) {
    EXPECT_EQ(recognised.text, decoded.at("text").get<std::string>());
    EXPECT_EQ(recognised.remark, decoded.value("remark", ""));
    ASSERT_EQ(recognised.words.size(), decoded.at("words").size());
    for (size_t i = 0; i < recognised.words.size(); ++i) {
      const RecognizedWord& word = recognised.words[i];
      const auto& expected = decoded.at("words").at(i);
      EXPECT_EQ(word.word, expected.at("word").get<std::string>());
      EXPECT_EQ(RoundedSeconds(word.start_s), expected.at("start"));
      EXPECT_EQ(RoundedSeconds(word.end_s - word.start_s), expected.at("duration"));
      EXPECT_EQ(word.confidence, expected.at("confidence").get<double>()) << "word " << i;
    }
  }

  // Whether the decoding estimated a transform at all.
  bool Adapted() const {
    const auto transforms = pipeline::ReadSpeakerTransforms(Path("out/fmllr.scp"));
    const Matrix& transform = transforms.begin()->second;
    return transform(0, 0) != 1.0F;
  }

  // A narrow beam is quick.
  inline static const RecognizerSettings kSettings{.beam = 4};
  const TwoWords system_{true};
};

}  // namespace antiphon::testing
