// What came of an adaptation: whether the model is taken, and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/loss_text.h"
#include "train/adaptation.h"

namespace antiphon::train {
namespace {

nlohmann::json Json(const DomainMeasures& m) {
  if (m.frames == 0) return nullptr;
  return {{"loss", m.loss}, {"frame_accuracy", m.frame_accuracy}, {"frames", m.frames}};
}

nlohmann::json Json(const std::optional<WordLoss>& words) {
  if (!words) return nullptr;
  return {{"before", words->before}, {"after", words->after}};
}

nlohmann::json Json(const ProbeResult& probe) {
  if (probe.kinds == 0) return nullptr;
  return probe.accuracy;
}

}  // namespace

// Of two that forget too much, or do not, the one with the lower loss on new speech.
bool AdaptationRun::Better(const AdaptationTrial& a, const AdaptationTrial& b, const DomainMeasures& before) const {
  const auto forgets = [&](const AdaptationTrial& t) {
    return before.frame_accuracy - t.old_speech.frame_accuracy > options_.max_forgetting;
  };
  if (before.frames > 0 && forgets(a) != forgets(b)) return forgets(b);
  return a.new_speech.loss < b.new_speech.loss;
}

void AdaptationRun::Judge(bool profile, AdaptationResult& r) const {
  const double forgotten = r.old_before.frame_accuracy - r.old_after.frame_accuracy;
  const bool comparable = r.new_before.frames > 0;
  const bool gained = !comparable || r.new_after.loss < r.new_before.loss * (1 - options_.min_gain);
  const bool frames_lost = r.old_before.frames > 0 && r.old_after.frames > 0 && forgotten > options_.max_forgetting;
  const bool words_lost = r.old_words && r.old_words->after - r.old_words->before > options_.max_word_loss;
  const bool forgets = !profile && (r.old_words ? words_lost : frames_lost);
  r.accepted = gained && !forgets;
  if (comparable && !gained) {
    r.verdict = fmt::format(
        "{}: the held-out loss on the new speech is {} after {} (min-gain: {:g} of it); the model stays as it "
        "was",
        r.new_after.loss < r.new_before.loss ? "too little was gained" : "nothing was gained",
        LossText(r.new_after.loss), LossText(r.new_before.loss), options_.min_gain);
  } else if (forgets && r.old_words) {
    r.verdict = fmt::format(
        "too much was forgotten: {:.2f} % of the words of old speech are wrong, before {:.2f} % (max-word-loss: {:.2f} "
        "points); the model stays as it was",
        100 * r.old_words->after, 100 * r.old_words->before, 100 * options_.max_word_loss);
  } else if (forgets) {
    r.verdict = fmt::format(
        "too much was forgotten: frame accuracy on old speech fell from {:.2f} % to {:.2f} % (max-forgetting: {:.2f} "
        "points); the model stays as it was",
        100 * r.old_before.frame_accuracy, 100 * r.old_after.frame_accuracy, 100 * options_.max_forgetting);
  } else if (!comparable && !speech_.words_known) {
    r.verdict =
        "the new speech has no transcripts, so that nobody knows whether it is recognised better: the adapted model is "
        "taken because it forgot no more than it may. New speech with transcripts (--held-out-store) would tell";
  } else if (!comparable) {
    r.verdict = "the senones are others than before: there is nothing to compare with, and the adapted model is taken";
  } else {
    r.verdict = fmt::format("held-out loss on the new speech {} after {}: the adapted model is taken",
                            LossText(r.new_after.loss), LossText(r.new_before.loss));
  }
}

std::string ProbeText(const ProbeResult& probe) {
  return probe.kinds > 0 ? fmt::format("{:.1f} %", 100 * probe.accuracy) : "(too little speech to tell)";
}

std::string ToJson(const AdaptationResult& r) {
  nlohmann::json changes = nlohmann::json::array();
  for (const adapt::Change& c : r.changes) changes.push_back({{"layer", c.layer}, {"what", c.what}});
  nlohmann::json schedule = nlohmann::json::array();
  for (const auto& [epoch, share] : r.schedule) schedule.push_back({{"epoch", epoch}, {"new_share", share}});
  nlohmann::json trials = nlohmann::json::array();
  for (const AdaptationTrial& t : r.trials) {
    trials.push_back({{"rho", t.original_share}, {"new", Json(t.new_speech)}, {"old", Json(t.old_speech)}});
  }
  return nlohmann::json(
             {{"model", r.model.string()},
              {"profile", r.profile.string()},
              {"accepted", r.accepted},
              {"verdict", r.verdict},
              {"rho", r.original_share},
              {"probe", {{"layer", r.probe_layer}, {"before", Json(r.probe_before)}, {"after", Json(r.probe_after)}}},
              {"layers", changes},
              {"schedule", schedule},
              {"trials", trials},
              {"old_words", Json(r.old_words)},
              {"new", {{"before", Json(r.new_before)}, {"after", Json(r.new_after)}}},
              {"old", {{"before", Json(r.old_before)}, {"after", Json(r.old_after)}}}})
      .dump();
}

}  // namespace antiphon::train
