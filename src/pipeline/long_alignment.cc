#include "pipeline/long_alignment.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/thread_pool.h"
#include "decode/search/scores_part.h"
#include "hmm/any_speech_scores.h"
#include "pipeline/text_anchors.h"
#include "pipeline/text_recognizer.h"

namespace antiphon::pipeline {
namespace {

constexpr int kPieceRows = 6000;    // of the features, that are recognised at once
constexpr int kAround = 60;         // rows on either side, which scores need
constexpr int kStretchRows = 2000;  // of a usual stretch
constexpr int kShortWordRows = 40;
constexpr double kNoBeam = 1e9;
constexpr size_t kMostWithGaps = 200;  // words; the graph grows with their square

// A part of the recording's frames, from scores of the rows around it, which it keeps.
class FramePart : public decode::ScoresPart {
 public:
  FramePart(std::unique_ptr<ScoreSource> scores, int first, int count)
      : ScoresPart(*scores, first, std::min(count, scores->num_frames_ready() - first)), scores_(std::move(scores)) {}

 private:
  std::unique_ptr<ScoreSource> scores_;
};

Matrix RowsOf(const Matrix& features, int64_t first, int64_t last) {
  return Matrix(features.view().Rows(first, last - first));
}

std::unique_ptr<ScoreSource> ScorePart(const Matrix& features, const GapAligner::Scorer& scorer, int subsampling,
                                       int begin, int end) {
  const int64_t around = (kAround + subsampling - 1) / subsampling;
  const int64_t first = std::max<int64_t>(0, begin - around) * subsampling;
  const int64_t last = std::min<int64_t>(features.rows(), (end + around) * subsampling);
  return std::make_unique<FramePart>(scorer(RowsOf(features, first, last)),
                                     begin - static_cast<int>(first / subsampling), end - begin);
}

// A model of silence, which is heard in all noises, may fit foreign speech better than any speech does; but a
// recogniser finds words in it. What is shorter than a short word is a breath. `begin_frame`: of the alignment.
void TellSpeechFromPauses(int begin_frame, std::span<const FoundWord> found, int fewest_frames,
                          hmm::Alignment& alignment) {
  for (hmm::AlignedPhone& phone : alignment.phones) {
    if (phone.word_position >= 0) continue;
    if (phone.num_frames < fewest_frames) {
      phone.word_position = -1;
      continue;
    }
    const int begin = begin_frame + phone.begin_frame, end = begin + phone.num_frames;
    int spoken = 0;
    for (const FoundWord& word : found) {
      spoken += std::max(0, std::min(end, word.end_frame) - std::max(begin, word.begin_frame));
    }
    if (2 * spoken > phone.num_frames) phone.word_position = hmm::kForeignSpeech;
  }
}

void Append(hmm::Alignment&& part, const TextStretch& stretch, hmm::Alignment& whole) {
  whole.transition_ids.insert(whole.transition_ids.end(), part.transition_ids.begin(), part.transition_ids.end());
  whole.log_likelihood += part.log_likelihood;
  whole.score += part.score;
  if (part.status == hmm::AlignStatus::kRetried) whole.status = part.status;
  for (hmm::AlignedPhone phone : part.phones) {
    phone.begin_frame += stretch.begin_frame;
    if (phone.word_position >= 0) phone.word_position += stretch.first_word;
    hmm::AlignedPhone* const before = whole.phones.empty() ? nullptr : &whole.phones.back();
    if (before != nullptr && phone.word_position < 0 && before->word_position == phone.word_position) {
      before->num_frames += phone.num_frames;  // a pause that was cut
    } else {
      whole.phones.push_back(phone);
    }
  }
}

}  // namespace

GapAligner::GapAligner(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const hmm::AlignOptions& align,
                       const GapOptions& gaps, int subsampling)
    : model_(model), lexicon_(lexicon), align_(align), gaps_(gaps), subsampling_(subsampling) {}

hmm::Alignment GapAligner::Align(std::span<const int32_t> words, ScoreSource& scores) const {
  hmm::AnySpeechScores with_any(scores, gaps_.best_share);
  // So many words that most cannot have been said in the time: the beginning and the end of them may.
  const auto said = std::min(words.size(), kMostWithGaps);
  std::vector<int32_t> ends(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(said - said / 2));
  ends.insert(ends.end(), words.end() - static_cast<std::ptrdiff_t>(said / 2), words.end());
  const auto graph_of = [&](std::span<const int32_t> some) {
    return BuildAlignGraph(model_, lexicon_, some, LexiconScale(model_, align_), &gaps_.costs);
  };
  hmm::Alignment found = hmm::Align(model_, graph_of(ends), with_any, align_);
  if (found.status == hmm::AlignStatus::kNoPath) {
    // Without any words there always is one, if no beam cuts it off: a part must not cost the whole recording.
    hmm::AlignOptions options = align_;
    options.beam = kNoBeam;
    found = hmm::Align(model_, graph_of({}), with_any, options);
  }
  for (hmm::AlignedPhone& phone : found.phones) {
    if (phone.word_position >= static_cast<int32_t>(said - said / 2)) {
      phone.word_position += static_cast<int32_t>(words.size() - said);
    }
  }
  TellSpeechFromPauses(0, {}, kShortWordRows / subsampling_, found);
  return found;
}

std::vector<FoundWord> GapAligner::Recognize(std::span<const int32_t> words, const Matrix& features, int num_frames,
                                             const Scorer& scorer, int num_threads) const {
  std::vector<FoundWord> found;
  if (words.empty()) return found;
  const int piece = kPieceRows / subsampling_;
  const TextRecognizer recognizer(model_, lexicon_, words);
  ParallelInOrder<std::vector<FoundWord>>(
      static_cast<size_t>((num_frames + piece - 1) / piece), num_threads,
      [&](size_t i) {
        ThrowIfCancelled("aligning");
        const int begin = static_cast<int>(i) * piece;
        return recognizer.Recognize(
            *ScorePart(features, scorer, subsampling_, begin, std::min(begin + piece, num_frames)));
      },
      [&](size_t i, std::vector<FoundWord>&& part) {
        const int begin = static_cast<int>(i) * piece;
        for (const FoundWord& word : part) {
          found.push_back({word.word, begin + word.begin_frame, begin + word.end_frame});
        }
      });
  return found;
}

hmm::Alignment GapAligner::AlignStretch(std::span<const int32_t> words, const TextStretch& stretch,
                                        std::span<const FoundWord> found, const Matrix& features,
                                        const Scorer& scorer) const {
  ThrowIfCancelled("aligning");
  const auto its_words = words.subspan(static_cast<size_t>(stretch.first_word), static_cast<size_t>(stretch.num_words));
  // With fewer words the recogniser finds more; as long as there are fewer.
  if (its_words.size() > kMostWithGaps && 10 * its_words.size() < 9 * words.size()) {
    const int64_t first = int64_t{stretch.begin_frame} * subsampling_;
    const int64_t last = std::min<int64_t>(features.rows(), int64_t{stretch.end_frame} * subsampling_);
    return AlignLong(its_words, RowsOf(features, first, last), scorer, /*num_threads=*/1);
  }
  const auto scores = ScorePart(features, scorer, subsampling_, stretch.begin_frame, stretch.end_frame);
  hmm::Alignment alignment;
  if (stretch.sure) alignment = hmm::Align(model_, lexicon_, its_words, *scores, align_);
  if (alignment.ok()) return alignment;
  alignment = Align(its_words, *scores);
  TellSpeechFromPauses(stretch.begin_frame, found, kShortWordRows / subsampling_, alignment);
  return alignment;
}

hmm::Alignment GapAligner::AlignLong(std::span<const int32_t> words, const Matrix& features, const Scorer& scorer,
                                     int num_threads) const {
  const auto num_frames = static_cast<int>((features.rows() + subsampling_ - 1) / subsampling_);
  const std::vector<FoundWord> found = Recognize(words, features, num_frames, scorer, num_threads);
  const auto stretches = CutAtAnchors(words, found, num_frames, kStretchRows / subsampling_);
  hmm::Alignment whole;
  whole.status = hmm::AlignStatus::kOk;
  ParallelInOrder<hmm::Alignment>(
      stretches.size(), num_threads,
      [&](size_t i) { return AlignStretch(words, stretches[i], found, features, scorer); },
      [&](size_t i, hmm::Alignment&& part) {
        if (!part.ok() && whole.ok()) whole = {part.status, {}, {}, 0, 0};
        if (whole.ok()) Append(std::move(part), stretches[i], whole);
      });
  return whole;
}

}  // namespace antiphon::pipeline
