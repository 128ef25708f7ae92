#include "pipeline/decode.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/gzip.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_seconds.h"
#include "decode/lattice/lattice_text.h"
#include "pipeline/decode_output.h"
#include "pipeline/decode_progress.h"
#include "pipeline/decode_speech.h"
#include "pipeline/decode_turns.h"
#include "pipeline/recognition_system.h"
#include "pipeline/speaker_profiles.h"
#include "pipeline/weight_tuning.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// Of one utterance.
struct Decoded {
  DecodeEntry entry;
  std::vector<int64_t> grid_errors;
  std::vector<decode::Lattice> lattices;  // of the utterance or its pieces, for WeightTuning
  std::string remark;
  double contrast = 0.0;
  int frames = 0;
  double seconds = 0.0;
  template <class V>
  void VisitFields(V& v) {
    v(entry);
    v(grid_errors);
    v(lattices);
    v(remark);
    v(contrast);
    v(frames);
    v(seconds);
  }
};

class Decoding {
 public:
  Decoding(const DecodeRequest& request, Team& team, int num_threads)
      : request_(request),
        team_(team),
        num_threads_(num_threads),
        system_(request.model, request.graph, request),
        profiles_(request.profiles, system_.model()),
        recognizer_(system_.recognizer()),
        speech_(request, system_, profiles_, num_threads, team),
        turns_(TurnsIn(request, system_.activity())),
        tuning_(request.search, decode::AcousticScale(request.recognize.search, system_.model().hmm()),
                speech_.references()) {}

  // On every member of the team; the first one writes.
  void Run() {
    FindTransforms();
    const DecodeFormat format(system_.graph(), system_.model().hmm(),
                              {recognizer_.frame_shift_s(), request_.lattices, request_.recognize.nbest > 0,
                               system_.weights(), system_.written()});
    std::optional<DecodeOutput> output;
    if (team_.is_first()) output.emplace(format.options(), request_.out);
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int64_t>& sizes = speech_.sizes();
    // Of this process's share; all have about as much.
    DecodeProgress progress("decoding", std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) / team_.size(),
                            team_.is_first());
    SpreadInOrder<Decoded>(
        team_, sizes, num_threads_, Spread::kToFirst,
        [&](size_t i) {
          ThrowIfCancelled("decoding");
          return WithContext([&] { return DecodeOne(i, format, progress); },
                             [&] { return fmt::format("utterance '{}'", speech_.utterances()[i]); });
        },
        [&](size_t i, Decoded&& decoded) { Take(speech_.utterances()[i], std::move(decoded), *output); });
    progress.Finish();
    wall_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (output) output->Close();
  }

  // Of the first member.
  DecodeReport Report() {
    DecodeReport report{.utterances = speech_.utterances().size(),
                        .speech_seconds = static_cast<double>(frames_) * recognizer_.frame_shift_s(),
                        .cpu_seconds = cpu_seconds_,
                        .wall_seconds = wall_seconds_,
                        .weights = system_.weights(),
                        .output_share = {},
                        .speaker_transforms = transforms_.size(),
                        .score = {},
                        .tuned = {}};
    const fs::path out = request_.out;
    if (request_.nnet.lazy) report.output_share = system_.model().computed_share();
    report.score = Errors(out / "text");
    if (request_.tune) report.tuned = tuning_.Choose(out, num_threads_);
    WriteFileAtomically(out / "summary.json", ToJson(report).dump(2) + "\n");
    return report;
  }

 private:
  // Of a file of words. None where there are no transcripts of what was decoded.
  std::optional<score::Report> Errors(const fs::path& text) const {
    const DecodeReferences& references = speech_.references();
    if (!references.known()) return std::nullopt;
    auto errors = references.Errors(
        text, [&](const std::string& utt_id) { return speech_.Has(utt_id); }, request_.seed);
    if (errors.total.utterances > 0) return errors;
    const std::vector<std::string>& utterances = speech_.utterances();
    log::Warn(
        "'{}' has a transcript of none of the {} utterances that were decoded, the first: '{}'; no errors are counted",
        (fs::path(request_.data) / "text").string(), utterances.size(), utterances.empty() ? "" : utterances[0]);
    return std::nullopt;
  }

  // Of a model that adapts to speakers: given, or estimated on this speech.
  void FindTransforms() {
    if (UsesGivenTransforms(request_, system_.model())) {
      transforms_ = ReadSpeakerTransforms(request_.features.speaker_transforms);
    } else if (const auto adaptation = system_.Adaptation()) {
      const std::vector<std::string>& utterances = speech_.utterances();
      const auto spoken = [&](size_t i) -> std::shared_ptr<UtteranceFeatures> {
        const auto features = speech_.Features(utterances[i]);
        if (turns_ == nullptr) return features;
        return std::make_shared<TurnFeatures>(features,
                                              recognizer_.RowsOfTurns(*features, turns_->Of(utterances[i]).turns));
      };
      auto adapted = adaptation->Adapt({.sizes = speech_.sizes(),
                                        .speaker = [&](size_t i) { return speech_.Speaker(utterances[i]); },
                                        .features = spoken,
                                        .is_told = true},
                                       num_threads_, team_);
      transforms_ = std::move(adapted.transforms);
      cpu_seconds_ += adapted.cpu_seconds;
      if (!transforms_.empty() && team_.is_first()) WriteSpeakerTransforms(transforms_, request_.out);
    }
  }

  Decoded DecodeOne(size_t i, const DecodeFormat& format, DecodeProgress& progress) const {
    const double began = ThreadSeconds();
    const std::string& utt_id = speech_.utterances()[i];
    const int64_t size = speech_.sizes()[i];
    const auto features = speech_.Features(utt_id);
    const double utterance_s = static_cast<double>(features->num_frames()) * recognizer_.feature_shift_s();
    const bool tunes = Tunes(utt_id);
    Decoded decoded;
    decode::LatticeTextInPieces text(utt_id);
    std::string lattices;
    PieceListener listener;
    listener.lattice = [&](decode::Lattice&& lattice) {
      if (tunes) decoded.lattices.push_back(WeightTuning::Needed(lattice));
      if (!request_.lattices) return;
      if (const std::string more = text.Add(std::move(lattice)); !more.empty())
        lattices += Gzip(more, GzipEffort::kQuick);
    };
    listener.searched = [&](int64_t frames) {
      progress.Add(static_cast<double>(frames) * recognizer_.feature_shift_s(), utterance_s, size);
    };
    const bool in_pieces = turns_ != nullptr || recognizer_.IsInPieces(features->num_frames());
    const decode::Recognition r =
        turns_ == nullptr ? recognizer_.Recognize(*features, SpeakerOf(utt_id), listener)
                          : recognizer_.RecognizeTurns(*features, turns_->Of(utt_id), turns_->least_contrast(),
                                                       SpeakerOf(utt_id), listener);
    if (in_pieces) {
      if (request_.lattices) lattices += Gzip(text.Finish(), GzipEffort::kQuick);
    } else {
      if (tunes) decoded.lattices.push_back(WeightTuning::Needed(r.lattice));
      const double searched_s = r.num_frames * recognizer_.frame_shift_s();
      progress.Add(searched_s, searched_s, size);
    }
    decoded.entry = format.Format(utt_id, r, std::move(lattices));
    if (tunes) decoded.grid_errors = tuning_.Errors(utt_id, decoded.lattices);
    decoded.remark = r.remark;
    decoded.contrast = r.contrast;
    decoded.frames = r.num_frames;
    decoded.seconds = ThreadSeconds() - began;
    return decoded;
  }

  bool Tunes(const std::string& utt_id) const { return request_.tune && tuning_.Counts(utt_id); }

  // Null: everything is decoded.
  static std::unique_ptr<const DecodeTurns> TurnsIn(const DecodeRequest& request,
                                                    const std::shared_ptr<const VoiceActivity>& activity) {
    if (activity == nullptr) return nullptr;
    return std::make_unique<const DecodeTurns>(activity, request.data, request.data_dir);
  }

  void Take(const std::string& utt_id, Decoded&& decoded, DecodeOutput& output) {
    if (!decoded.remark.empty()) log::Warn("{}: {}", utt_id, decoded.remark);
    output.Write(decoded.entry);
    if (Tunes(utt_id)) tuning_.Add(utt_id, decoded.grid_errors, std::move(decoded.lattices), decoded.contrast);
    frames_ += decoded.frames;
    cpu_seconds_ += decoded.seconds;
  }

  KnownSpeaker SpeakerOf(const std::string& utt_id) const {
    if (profiles_.size() == 0 && transforms_.empty()) return {};
    const std::string speaker = speech_.Speaker(utt_id);
    return {profiles_.Of(speaker), TransformOf(speaker)};
  }

  // Null: speakers have none.
  const Matrix* TransformOf(const std::string& speaker) const {
    if (transforms_.empty()) return nullptr;
    const auto transform = transforms_.find(speaker);
    if (transform == transforms_.end()) {
      Throw<InputError>("'{}' has no transform of speaker '{}'", request_.features.speaker_transforms, speaker);
    }
    return &transform->second;
  }

  const DecodeRequest& request_;
  Team& team_;
  int num_threads_;
  RecognitionSystem system_;
  SpeakerProfiles profiles_;
  const UtteranceRecognizer& recognizer_;
  DecodeSpeech speech_;
  std::unique_ptr<const DecodeTurns> turns_;
  WeightTuning tuning_;
  SpeakerTransforms transforms_;
  int64_t frames_ = 0;
  double cpu_seconds_ = 0.0;
  double wall_seconds_ = 0.0;
};

}  // namespace

DecodeReport Decode(const DecodeRequest& request, Team& team, int num_threads) {
  RequireOtherPlace(request.data, request.out, "its text");
  DecodeRequest of_directory = WithBundle(request);
  if (request.tune) {  // measure what is usual, of all utterances
    of_directory.recognize.contrast = true;
    of_directory.vad.least_contrast = 0;
  }
  if (request.features.features.empty())
    of_directory.data = DataDirectoryOf(request.data, {}, request.audio, request.out, team);
  Decoding decoding(of_directory, team, num_threads);
  decoding.Run();
  return team.is_first() ? decoding.Report() : DecodeReport();
}

}  // namespace antiphon::pipeline
