// Alignments in which text and speech need not agree: on scores that say plainly which phone is spoken.
#include <gtest/gtest.h>

#include <algorithm>

#include "hmm/aligner.h"
#include "hmm/any_speech_scores.h"
#include "math/matrix.h"

namespace antiphon::hmm {
namespace {

constexpr int kFramesPerPhone = 6;

class MatrixScores : public ScoreSource {
 public:
  MatrixScores(Matrix scores, bool dense) : scores_(std::move(scores)), dense_(dense) {}
  int num_pdfs() const override { return static_cast<int>(scores_.cols()); }
  int num_frames_ready() const override { return static_cast<int>(scores_.rows()); }
  bool IsLastFrame(int frame) const override { return frame + 1 == num_frames_ready(); }
  float LogLikelihood(int frame, int32_t pdf_id) override { return scores_(frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override {
    return dense_ ? std::span<const float>(scores_.Row(frame)) : std::span<const float>();
  }

 private:
  Matrix scores_;
  bool dense_;
};

struct Task {
  Lexicon lexicon = Lexicon::Parse("A a p\nB b q\nC c r\nD d s\nE e t\n", "test");
  HmmModel model = [this] {
    TopologyOptions options;
    options.num_states = 1;
    options.num_silence_states = 1;
    const Topology topology(lexicon.phones(), options);
    return HmmModel(lexicon.phones(), topology, ContextTree::Monophone(topology));
  }();

  std::vector<int32_t> Ids(const std::string& words) const {
    std::vector<int32_t> ids;
    for (const char word : words) ids.push_back(lexicon.FindWord(std::string(1, word)));
    return ids;
  }

  // 20 nats better for the phone that is spoken; "-" is a pause.
  Matrix Say(const std::string& words) const {
    std::vector<int32_t> phones;
    for (const char word : words) {
      if (word == '-') {
        phones.push_back(lexicon.optional_silence());
        continue;
      }
      for (const int32_t phone : lexicon.PronunciationsOf(lexicon.FindWord(std::string(1, word)))[0].phones) {
        phones.push_back(phone);
      }
    }
    Matrix scores(static_cast<int64_t>(phones.size()) * kFramesPerPhone, model.num_pdfs());
    for (int64_t t = 0; t < scores.rows(); ++t) {
      const int32_t window[3] = {0, phones[static_cast<size_t>(t / kFramesPerPhone)], 0};
      const int32_t state = model.TransitionState(model.Window(window), 0);
      scores(t, model.transitions().EntryPdf(state)) = 20.0F;
    }
    return scores;
  }

  // What was found of `text`, and of the frames what is foreign: "AB" and "x" per foreign phone length.
  std::string Align(const std::string& text, const std::string& speech, bool dense = true) const {
    MatrixScores scores(Say(speech), dense);
    AnySpeechScores any(scores, 0.2);  // two of eleven classes: half as good as the right one
    const std::vector<int32_t> ids = Ids(text);
    const GapCosts gaps{.speech = 4.0, .text = 2.0, .word = 0.5};  // words of two frames are cheap here
    const AlignGraph graph = BuildAlignGraph(model, lexicon, ids, /*lexicon_scale=*/1.0, &gaps);
    const Alignment found = hmm::Align(model, graph, any, {.beam = 100});
    EXPECT_TRUE(found.ok());
    EXPECT_EQ(found.transition_ids.size(), static_cast<size_t>(scores.num_frames_ready()));
    std::string all;
    int32_t last = -1, end = 0;
    for (const AlignedPhone& phone : found.phones) {
      EXPECT_EQ(phone.begin_frame, end);
      end = phone.begin_frame + phone.num_frames;
      if (phone.word_position == kForeignSpeech) all += std::string(static_cast<size_t>(phone.num_frames / 12), 'x');
      if (phone.word_position >= 0 && phone.word_position != last) {
        EXPECT_GT(phone.word_position, last);
        last = phone.word_position;
        all += lexicon.Word(ids[static_cast<size_t>(last)]);
      }
    }
    return all;
  }
};

TEST(GapAlignment, WhatAgreesIsAlignedAsEver) {
  const Task task;
  for (const char* text : {"A", "ABCDE", "ABAB", "-A-B-"}) {
    std::string words(text);
    std::erase(words, '-');
    EXPECT_EQ(task.Align(words, text), words);
  }
}

TEST(GapAlignment, TextThatNobodySaysIsLeftOut) {
  const Task task;
  EXPECT_EQ(task.Align("ABCDE", "ABE"), "ABE");
  EXPECT_EQ(task.Align("ABCDE", "CDE"), "CDE");
  EXPECT_EQ(task.Align("ABCDE", "ABC"), "ABC");
  EXPECT_EQ(task.Align("ABCDE", "---"), "");
}

TEST(GapAlignment, SpeechThatTheTextLacksIsForeign) {
  const Task task;
  EXPECT_EQ(task.Align("AB", "ACDEB"), "AxxxB");
  EXPECT_EQ(task.Align("AB", "CDE-AB"), "xxxAB");
  EXPECT_EQ(task.Align("AB", "AB-CDE"), "ABxxx");
  EXPECT_EQ(task.Align("", "CDE"), "xxx");
}

TEST(GapAlignment, BothAtOnce) {
  const Task task;
  EXPECT_EQ(task.Align("ABBB", "ACDEEB"), "AxxxxB");
}

TEST(GapAlignment, ScoresMayBeDenseOrNot) {
  const Task task;
  EXPECT_EQ(task.Align("AB", "ACDEB", true), task.Align("AB", "ACDEB", false));
}

TEST(AnySpeechScores, AreTheMeanOfTheBest) {
  Matrix scores(1, 5);
  for (int i = 0; i < 5; ++i) scores(0, i) = static_cast<float>(i * i);
  MatrixScores source(std::move(scores), true);
  EXPECT_FLOAT_EQ(AnySpeechScores(source, 0.4).LogLikelihood(0, 5), (16.0F + 9.0F) / 2);
  EXPECT_FLOAT_EQ(AnySpeechScores(source, 1e-6).LogLikelihood(0, 5), 16.0F);
  EXPECT_FLOAT_EQ(AnySpeechScores(source, 0.4).LogLikelihood(0, 2), 4.0F);
}

}  // namespace
}  // namespace antiphon::hmm
