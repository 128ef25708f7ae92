// A recording of any length from scores to words, in memory that does not grow with it.
//
//   RecognizeInPieces pieces(recognizer, options, weights, frame_shift_s, [&](Piece&& piece) { … });
//   while (more) { /* more frames come into `scores` */ pieces.Advance(scores); }
//   pieces.Finish(scores);
//
// The search goes through the recording once. Where a speaker pauses at what may be a sentence's end (the rules of
// decode/endpoint.h, without the one by length) the sentence is over and another begins, as in live recognition. Where
// there is no such pause for max-piece seconds, the best path so far is cut at its longest pause, or between two words,
// a while ago: the words before the cut are final, the search continues after it with the language model's history, and
// the words are those of a search that was not cut (as long as its best path goes through that place in the end). Only
// where there is not even such a place for twice as long, the search ends and starts anew wherever it is.
//
// Where the cuts lie depends on the scores alone, not on how they come in chunks.
// Threads: one per object; the recogniser is its own until Finish.
// Errors: as Decoder::Advance; what ends an utterance (no hypothesis goes on) ends a piece instead, which says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "decode/search/endpoint.h"
#include "decode/search/recognize.h"

namespace antiphon::decode {

struct PieceOptions {
  double cut_above_s = 30.0;
  double cut_silence_s = 0.5;
  double max_piece_s = 30.0;

  template <class V>
  void Visit(V& v) {
    v("cut-above", cut_above_s, Range{1.0, 1e9},
      "seconds; longer recordings are recognised in pieces, cut in silences, so that memory does not grow with them");
    v("cut-silence", cut_silence_s, Range{0.05, 60.0},
      "seconds of silence in which one may be cut at a sentence's end");
    v("max-piece", max_piece_s, Range{2.0, 3600.0},
      "seconds without such silence after which one is cut between words, the search going on across the cut");
  }

  bool Cuts(int64_t num_frames, double frame_shift_s) const {
    return static_cast<double>(num_frames) * frame_shift_s > cut_above_s;
  }
};

struct Piece {
  int64_t begin_frame = 0;
  int num_frames = 0;  // those of a lost piece, too
  Recognition recognition;
  bool lost = false;  // no hypothesis went on; the recognition's remark says so
};

class RecognizeInPieces {
 public:
  using Callback = std::function<void(Piece&&)>;
  RecognizeInPieces(Recognizer& recognizer, const PieceOptions& options, const LatticeWeights& weights,
                    double frame_shift_s, Callback callback);

  /// Searches the frames of the recording that are ready; the source may forget those before.
  void Advance(ScoreSource& scores);
  /// The same, and no more will come.
  void Finish(ScoreSource& scores);

 private:
  void Step(ScoreSource& scores, int frames);
  bool SentenceIsOver() const;
  void End();
  // False if there is no place for it.
  bool Cut();
  void HandOut(Recognition&& recognition, int num_frames, bool lost = false);
  int searched() const { return recognizer_.decoder().num_frames(); }

  Recognizer& recognizer_;
  LatticeWeights weights_;
  double frame_shift_s_;
  Callback callback_;
  std::vector<EndpointRule> rules_;
  int max_frames_;
  int next_try_;       // frames at which a cut is looked for
  int64_t begin_ = 0;  // of the present piece
};

/// The pieces of a recording put together again: words and times of the whole, alignments and lattice left out.
class JoinPieces {
 public:
  /// `nbest`: hypotheses of the whole to keep, from those of the pieces.
  explicit JoinPieces(int nbest) : nbest_(nbest) {}
  /// In order; `weights` are those that the pieces were chosen by.
  void Add(const Piece& piece, const LatticeWeights& weights);
  Recognition Take(double frame_shift_s);

 private:
  int nbest_;
  Recognition whole_;
  double contrast_sum_ = 0.0;
  int contrast_frames_ = 0;
  int num_lost_ = 0;
  std::pair<int64_t, std::string> first_lost_;  // where it begins, and why
  std::string last_remark_;
  std::optional<std::string> common_remark_;  // of all pieces; kNoWords where they differ
};

}  // namespace antiphon::decode
