#include "decode/search/recognize_in_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "decode/search/scores_from.h"

namespace antiphon::decode {
namespace {

// Between looks for an end.
constexpr int kStepFrames = 20;
// Behind a cut there is so much speech that hypotheses agree on what was said there.
constexpr double kAgreedAfterS = 1.5;

std::vector<EndpointRule> RulesWithoutLength(double silence_s) {
  auto rules = EndpointRulesFor(silence_s);
  rules.pop_back();
  return rules;
}

// The cheapest sums of one path of each list, which are in the order of their costs.
std::vector<LatticePath> CheapestSums(const std::vector<LatticePath>& first, const std::vector<LatticePath>& second,
                                      const LatticeWeights& weights, int count) {
  const auto cost = [&](const LatticePath& path) {
    return path.cost.Total(weights.acoustic_scale) + weights.word_penalty * static_cast<double>(path.words.size());
  };
  struct Sum {
    double cost;
    size_t i, j;
    bool operator>(const Sum& o) const { return std::tie(cost, i, j) > std::tie(o.cost, o.i, o.j); }
  };
  std::priority_queue<Sum, std::vector<Sum>, std::greater<>> next;
  const auto push = [&](size_t i, size_t j) {
    if (i < first.size() && j < second.size()) next.push({cost(first[i]) + cost(second[j]), i, j});
  };
  push(0, 0);
  std::vector<LatticePath> sums;
  while (!next.empty() && std::ssize(sums) < count) {
    const auto [sum, i, j] = next.top();
    next.pop();
    LatticePath& path = sums.emplace_back();
    path.words = first[i].words;
    path.words.insert(path.words.end(), second[j].words.begin(), second[j].words.end());
    path.cost = first[i].cost + second[j].cost;
    push(i, j + 1);
    if (j == 0) push(i + 1, 0);
  }
  return sums;
}

}  // namespace

RecognizeInPieces::RecognizeInPieces(Recognizer& recognizer, const PieceOptions& options, const LatticeWeights& weights,
                                     double frame_shift_s, Callback callback)
    : recognizer_(recognizer),
      weights_(weights),
      frame_shift_s_(frame_shift_s),
      callback_(std::move(callback)),
      rules_(RulesWithoutLength(options.cut_silence_s)),
      max_frames_(static_cast<int>(options.max_piece_s / frame_shift_s)),
      next_try_(max_frames_) {
  recognizer_.Start();
}

void RecognizeInPieces::Advance(ScoreSource& scores) {
  while (scores.num_frames_ready() - begin_ - searched() >= kStepFrames) Step(scores, kStepFrames);
}

void RecognizeInPieces::Finish(ScoreSource& scores) {
  Advance(scores);
  const int left = static_cast<int>(scores.num_frames_ready() - begin_ - searched());
  if (left > 0) Step(scores, left);
  if (searched() > 0) End();
}

void RecognizeInPieces::Step(ScoreSource& scores, int frames) {
  ScoresFrom here(scores, static_cast<int>(begin_));
  const int before = searched();
  try {
    recognizer_.Advance(here, frames);
  } catch (const ShapeError&) {
    throw;  // wrong for all frames
  } catch (const InputError& e) {
    Recognition nothing;
    nothing.remark = e.what();
    HandOut(std::move(nothing), before + frames, /*lost=*/true);
    recognizer_.Start();
    return;
  }
  if (SentenceIsOver() || (searched() >= next_try_ && !Cut() && searched() >= 2 * max_frames_)) End();
}

bool RecognizeInPieces::SentenceIsOver() const {
  return IsEndpoint(ObserveEndpoint(recognizer_.decoder(), recognizer_.model(), recognizer_.head_start()), rules_,
                    frame_shift_s_);
}

void RecognizeInPieces::End() {
  const int frames = searched();
  Recognition result = recognizer_.Finish(weights_);
  HandOut(std::move(result), frames);
  recognizer_.Start();
}

bool RecognizeInPieces::Cut() {
  next_try_ = searched() + kStepFrames * 5;
  const Decoder& decoder = recognizer_.decoder();
  const std::vector<PathAnchor> anchors = decoder.BestAnchors();
  const PathTimes times = FindTimes(recognizer_.model(), *recognizer_.graph().lexicon(), decoder.BestPath());
  const int last = searched() - static_cast<int>(kAgreedAfterS / frame_shift_s_);
  struct Place {
    int frame;
    int pause;
  };
  std::optional<Place> best;
  int words_ended = 0;
  for (size_t p = 1; p < times.phones.size(); ++p) {
    const TimedPhone &left = times.phones[p - 1], &right = times.phones[p];
    if (left.word_index == right.word_index && left.word_index >= 0) continue;
    if (left.word_index >= 0) words_ended = left.word_index + 1;
    if (right.begin_frame < max_frames_ / 4) continue;
    if (right.begin_frame > last) break;
    // Words that the graph gives later than they end would go to the other side.
    if (anchors[static_cast<size_t>(right.begin_frame)].num_words != words_ended) continue;
    const int pause = right.word_index < 0 ? right.num_frames : left.word_index < 0 ? left.num_frames : 0;
    if (!best || pause >= best->pause) best = Place{right.begin_frame, pause};
  }
  if (!best) return false;
  HandOut(recognizer_.Cut(best->frame, anchors[static_cast<size_t>(best->frame)], weights_), best->frame);
  return true;
}

void RecognizeInPieces::HandOut(Recognition&& recognition, int num_frames, bool lost) {
  callback_({begin_, num_frames, std::move(recognition), lost});
  begin_ += num_frames;
  next_try_ = max_frames_;
}

void JoinPieces::Add(const Piece& piece, const LatticeWeights& weights) {
  const Recognition& r = piece.recognition;
  whole_.num_frames += piece.num_frames;
  if (!std::isnan(r.contrast)) {
    contrast_sum_ += r.contrast * r.num_frames;
    contrast_frames_ += r.num_frames;
  }
  // Without frames nothing was looked for, which says nothing of the words before.
  if (!r.best.words.empty() || r.num_frames > 0) last_remark_ = r.remark;
  if (!common_remark_) common_remark_ = r.remark;
  if (*common_remark_ != r.remark) common_remark_ = kNoWords;
  if (piece.lost) {
    if (num_lost_++ == 0) first_lost_ = {piece.begin_frame, r.remark};
    return;
  }
  const auto begin = static_cast<int>(piece.begin_frame);
  const auto words_before = static_cast<int32_t>(whole_.best.words.size());
  whole_.best.words.insert(whole_.best.words.end(), r.best.words.begin(), r.best.words.end());
  whole_.best.cost = whole_.best.cost + r.best.cost;
  for (TimedWord word : r.times.words) {
    word.begin_frame += begin;
    whole_.times.words.push_back(word);
  }
  for (TimedPhone phone : r.times.phones) {
    phone.begin_frame += begin;
    if (phone.word_index >= 0) phone.word_index += words_before;
    whole_.times.phones.push_back(phone);
  }
  whole_.confidences.insert(whole_.confidences.end(), r.confidences.begin(), r.confidences.end());
  if (nbest_ == 0 || r.nbest.empty()) return;
  whole_.nbest = whole_.nbest.empty() ? CheapestSums({LatticePath{}}, r.nbest, weights, nbest_)
                                      : CheapestSums(whole_.nbest, r.nbest, weights, nbest_);
}

Recognition JoinPieces::Take(double frame_shift_s) {
  if (num_lost_ > 0) {
    whole_.remark = fmt::format("{} pieces are lost, the first at {:.2f} s: {}", num_lost_,
                                static_cast<double>(first_lost_.first) * frame_shift_s, first_lost_.second);
  } else if (whole_.best.words.empty()) {
    whole_.remark = common_remark_ && !common_remark_->empty() ? *common_remark_ : kNoWords;
  } else if (last_remark_ != kNoWords) {
    whole_.remark = last_remark_;
  }
  if (contrast_frames_ > 0) whole_.contrast = contrast_sum_ / contrast_frames_;
  return std::exchange(whole_, {});
}

}  // namespace antiphon::decode
