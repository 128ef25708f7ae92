#include "pipeline/finer_phones.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>
#include <utility>

#include "decode/search/scores_part.h"
#include "hmm/align_graph.h"
#include "hmm/gmm.h"
#include "hmm/gmm_model.h"

namespace antiphon::pipeline {
namespace {

constexpr double kLongPauseS = 0.2;
constexpr double kMostMovedS = 0.1;

int EndOf(const hmm::AlignedPhone& phone) { return phone.begin_frame + phone.num_frames; }

// Of the features, whose last rows may not fill a frame.
std::vector<hmm::AlignedPhone> InRows(std::span<const hmm::AlignedPhone> phones, int subsampling, int num_rows) {
  std::vector<hmm::AlignedPhone> in_rows;
  for (hmm::AlignedPhone phone : phones) {
    const int end = std::min(EndOf(phone) * subsampling, num_rows);
    phone.begin_frame *= subsampling;
    phone.num_frames = end - phone.begin_frame;
    in_rows.push_back(phone);
  }
  return in_rows;
}

class PhoneRefiner {
 public:
  PhoneRefiner(const hmm::HmmModel& phones_of, const hmm::GmmModel& gaussians, ScoreSource& scores,
               double feature_shift_s, const hmm::AlignOptions& options)
      : phones_of_(phones_of),
        gaussians_(gaussians),
        scores_(scores),
        options_(options),
        long_pause_(static_cast<int>(std::lround(kLongPauseS / feature_shift_s))),
        most_moved_(static_cast<int>(std::lround(kMostMovedS / feature_shift_s))) {}

  std::vector<hmm::AlignedPhone> Refine(const std::vector<hmm::AlignedPhone>& coarse) {
    for (const hmm::AlignedPhone& phone : coarse) {
      if (phone.word_position == hmm::kForeignSpeech) {
        EndStretch();
        Append({&phone, 1});
      } else if (phone.word_position < 0 && phone.num_frames >= long_pause_) {
        hmm::AlignedPhone half = phone;
        half.num_frames = phone.num_frames / 2;
        stretch_.push_back(half);
        EndStretch();
        half.begin_frame += half.num_frames;
        half.num_frames = phone.num_frames - half.num_frames;
        stretch_.push_back(half);
      } else {
        stretch_.push_back(phone);
      }
    }
    EndStretch();
    return std::move(fine_);
  }

 private:
  void EndStretch() {
    // A pause alone has no boundary of its own.
    if (stretch_.size() < 2) return Append(std::exchange(stretch_, {}));
    const int begin = stretch_.front().begin_frame;
    std::vector<hmm::AlignGraph::Instance> phones;
    for (const hmm::AlignedPhone& phone : stretch_) {
      phones.push_back({gaussians_.hmm.phones().Find(phones_of_.phones().Name(phone.phone)), phone.word_position});
    }
    decode::ScoresPart rows(scores_, begin, EndOf(stretch_.back()) - begin);
    const hmm::Alignment found =
        hmm::Align(gaussians_.hmm, hmm::BuildPhoneSequenceGraph(gaussians_.hmm, phones), rows, options_);
    std::vector<hmm::AlignedPhone> refined = std::exchange(stretch_, {});
    if (found.ok() && found.phones.size() == refined.size()) Move(found.phones, begin, refined);
    Append(refined);
  }

  // All or none.
  void Move(const std::vector<hmm::AlignedPhone>& found, int begin, std::vector<hmm::AlignedPhone>& phones) const {
    for (size_t p = 0; p < phones.size(); ++p) {
      if (std::abs(begin + found[p].begin_frame - phones[p].begin_frame) > most_moved_) return;
    }
    for (size_t p = 0; p < phones.size(); ++p) {
      phones[p].begin_frame = begin + found[p].begin_frame;
      phones[p].num_frames = found[p].num_frames;
    }
  }

  // The halves of a pause become one again.
  void Append(std::span<const hmm::AlignedPhone> phones) {
    for (const hmm::AlignedPhone& phone : phones) {
      const bool goes_on = !fine_.empty() && phone.word_position == -1 && fine_.back().word_position == -1 &&
                           fine_.back().phone == phone.phone;
      if (goes_on) {
        fine_.back().num_frames += phone.num_frames;
      } else {
        fine_.push_back(phone);
      }
    }
  }

  const hmm::HmmModel& phones_of_;
  const hmm::GmmModel& gaussians_;
  ScoreSource& scores_;
  const hmm::AlignOptions& options_;
  int long_pause_, most_moved_;
  std::vector<hmm::AlignedPhone> stretch_;
  std::vector<hmm::AlignedPhone> fine_;
};

}  // namespace

bool HasFinerPhones(const AcousticModel& model) {
  if (model.subsampling() == 1 || model.adaptive() == nullptr) return false;
  const hmm::PhoneSet& known = model.adaptive()->hmm.phones();
  return std::ranges::all_of(model.hmm().phones().Names(), [&](const auto& name) { return known.Find(name) > 0; });
}

std::vector<hmm::AlignedPhone> FinerPhones(const AcousticModel& model, const hmm::Alignment& alignment,
                                           const Matrix& features, const Matrix* transform, double feature_shift_s,
                                           const hmm::AlignOptions& options) {
  const hmm::GmmModel& gaussians = *model.adaptive();
  hmm::GmmScorer scores = gaussians.Scores(features, transform);
  const auto coarse = InRows(alignment.phones, model.subsampling(), static_cast<int>(features.rows()));
  return PhoneRefiner(model.hmm(), gaussians, scores, feature_shift_s, options).Refine(coarse);
}

}  // namespace antiphon::pipeline
