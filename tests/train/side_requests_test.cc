// Requests for a side task that mean nothing are refused with the reason, and what it has to learn from is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "synthetic_task.h"
#include "temporary_folder.h"
#include "train/probe.h"
#include "train/side_speech.h"

namespace antiphon::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class E>
std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error of that kind";
}

class SideRequests : public ::testing::Test {
 protected:
  std::shared_ptr<const data::FrameStore> Store(const std::string& name, int speakers) {
    return MakeSyntheticStore(folder_ / name, {.speakers = speakers});
  }
  std::string Labels(const std::string& lines) {
    WriteFileAtomically(folder_ / "labels", lines);
    return (folder_ / "labels").string();
  }
  SideSpeech Open(const adapt::SideTaskOptions& side, std::shared_ptr<const data::FrameStore> store) {
    return {side, std::move(store), SmallOptions().data, nullptr, 1};
  }
  static adapt::SideTaskOptions Task(const std::string& task) {
    adapt::SideTaskOptions side;
    side.task = task;
    return side;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(SideRequests, OneClassAloneIsRefused) {
  const auto alone = Store("alone", 1), several = Store("several", 3);
  EXPECT_THAT(ErrorOf<InputError>([&] { Open(Task("speaker"), alone); }),
              AllOf(HasSubstr("alone' has 1 speaker"), HasSubstr("nothing to tell apart")));
  EXPECT_EQ(Open(Task("speaker"), several).classes(), 3);
  adapt::SideTaskOptions labels = Task("labels");
  // The second label belongs to speech of another store.
  labels.labels = Labels("spk0-utt0 quiet\nspk0-utt1 quiet\nsomebody loud\n");
  EXPECT_THAT(ErrorOf<InputError>([&] { Open(labels, several); }), HasSubstr("1 label(s)"));
}

TEST_F(SideRequests, TheTrainingSpeechItselfIsNoOtherSpeech) {
  const auto store = Store("store", 2);
  Store("other", 3);
  adapt::SideTaskOptions side = Task("domain");
  for (const std::string same : {"store", "store/", "other/../store"}) {
    side.store = folder_.path().string() + "/" + same;
    EXPECT_THAT(ErrorOf<UsageError>([&] { Open(side, store); }), HasSubstr("the training speech itself")) << same;
  }
  side.store = (folder_ / "other").string();
  EXPECT_EQ(Open(side, store).classes(), 2);
}

TEST_F(SideRequests, WhatIsHeldOutMayLeaveNothingToTellApart) {
  const auto store = Store("store", 2);
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 1;
  options.side = Task("speaker");
  options.held_out.by = HeldOutUnit::kSpeaker;
  EXPECT_THAT(ErrorOf<InputError>([&] { TrainHere(SmallTask(store, folder_ / "run"), options); }),
              AllOf(HasSubstr("of the 2 classes"), HasSubstr("held-out.by = 'utterance'")));
  options.held_out.by = HeldOutUnit::kUtterance;
  EXPECT_EQ(TrainHere(SmallTask(store, folder_ / "run"), options).side_probe.kinds, 2);
}

TEST_F(SideRequests, KeysOfAnotherTaskAreRefusedAndThoseThatLackAreNamed) {
  adapt::SideTaskOptions side;
  CheckSideTask(side);
  side.labels = "labels";
  EXPECT_THAT(ErrorOf<UsageError>([&] { CheckSideTask(side); }),
              AllOf(HasSubstr("side.labels = \"labels\""), HasSubstr("without side.task")));
  side = {};
  side.weight = 2;
  EXPECT_THAT(ErrorOf<UsageError>([&] { CheckSideTask(side); }), HasSubstr("side.weight"));
  EXPECT_THAT(ErrorOf<UsageError>([&] { CheckSideTask(Task("domain")); }), HasSubstr("side.store, which is missing"));
  EXPECT_THAT(ErrorOf<UsageError>([&] { CheckSideTask(Task("labels")); }), HasSubstr("side.labels, which is missing"));
  side = Task("speaker");
  side.store = "store";
  EXPECT_THAT(ErrorOf<UsageError>([&] { CheckSideTask(side); }),
              HasSubstr("side.store belongs to side.task = 'domain', and the task is 'speaker'"));
}

TEST_F(SideRequests, ALabelFileIsOneLabelPerUtterance) {
  const auto store = Store("store", 2);
  adapt::SideTaskOptions side = Task("labels");
  side.labels = Labels("spk0-utt0 quiet\nspk0-utt1 very loud\n");
  EXPECT_THAT(ErrorOf<InputError>([&] { Open(side, store); }),
              HasSubstr("labels:2: expected 'utterance label', found 3 fields"));
  side.labels = Labels("spk0-utt0 quiet\nspk0-utt0 loud\n");
  EXPECT_THAT(ErrorOf<InputError>([&] { Open(side, store); }), HasSubstr("labels:2: 'spk0-utt0' is there twice"));
}

TEST_F(SideRequests, UtterancesWithoutALabelAreCounted) {
  const auto store = Store("store", 2);
  adapt::SideTaskOptions side = Task("labels");
  side.labels = Labels("spk0-utt0 quiet\nspk1-utt1 loud\n");
  const SideSpeech speech = Open(side, store);
  EXPECT_EQ(speech.unlabelled(), 14);
  EXPECT_THAT(speech.Describe(), HasSubstr("2 of 16 utterances have a label, of 2 kinds"));
  EXPECT_EQ(Open(Task("speaker"), store).unlabelled(), 0);
}

TEST_F(SideRequests, TooLittleSpeechForAFreshClassifierIsSaid) {
  TrainOptions options = SmallOptions();
  options.schedule.epochs = 1;
  options.side = Task("labels");
  options.held_out.by = HeldOutUnit::kUtterance;
  // One utterance of a kind: nothing is left to try the classifier on.
  options.side.labels = Labels("spk0-utt4 quiet\nspk1-utt6 loud\n");
  const TrainingSummary summary = TrainHere(SmallTask(Store("store", 2), folder_ / "run"), options);
  EXPECT_EQ(summary.side_probe.kinds, 0);
  EXPECT_THAT(summary.side_probe.missing, HasSubstr("0 of 2 kinds"));
}

}  // namespace
}  // namespace antiphon::train
