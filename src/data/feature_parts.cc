#include "data/feature_parts.h"

#include <fmt/format.h>

#include <charconv>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "data/text_table.h"
#include "feat/audio.h"
#include "feat/zero_spans.h"

namespace antiphon::data {
namespace {

constexpr char kTable[] = "long_feats";
constexpr char kIndex[] = "utt2parts";

std::string Key(std::string_view utt_id, int64_t part) { return fmt::format("{}:{}", utt_id, part); }

}  // namespace

FeaturePartsWriter::FeaturePartsWriter(const std::filesystem::path& folder, MatrixCoding coding)
    : folder_(folder), table_(folder / fmt::format("{}.ark", kTable), TableWriteOptions{.coding = coding}) {}

int64_t FramesInParts(const AudioPieces& audio, int rate_hz, const feat::FrontEnd& front_end, uint64_t utterance,
                      const std::function<void(Matrix&&)>& use, const feat::SpeakerMean& before,
                      feat::SpeakerMean* after) {
  feat::Resampler resampler(rate_hz, front_end.options().sample_rate_hz);
  feat::FrontEndStream frames(front_end, utterance, before);
  int64_t samples = 0;
  std::vector<float> resampled;
  const auto hand_out = [&](int64_t least) {
    while (frames.frames_ready() >= least && frames.frames_ready() > 0) use(frames.Take(kPartFrames));
  };
  const auto compute = [&] {
    samples += std::ssize(resampled);
    frames.Accept(resampled);
    resampled.clear();
    hand_out(kPartFrames);
  };
  audio([&](std::span<const float> piece) {
    resampler.Accept(piece, resampled);
    compute();
  });
  resampler.Finish(resampled);
  compute();
  frames.Finish();
  hand_out(1);
  if (after != nullptr) *after = frames.speaker();
  return samples;
}

StoredParts FeaturePartsWriter::Write(const std::string& utt_id, const feat::FrontEnd& front_end,
                                      feat::AudioReader& audio) {
  StoredParts stored;
  stored.cmvn = feat::CmvnStats(front_end.dim());
  feat::ZeroSpans zeros(audio.sample_rate_hz());
  const AudioPieces pieces = [&](const auto& sink) {
    for (std::vector<float> piece; audio.Read(piece);) {
      ThrowIfCancelled("computing features");
      zeros.Accept(piece);
      sink(piece);
    }
  };
  const int64_t samples =
      FramesInParts(pieces, audio.sample_rate_hz(), front_end, feat::UtteranceSeed(utt_id), [&](Matrix&& part) {
        stored.cmvn.Add(part);
        stored.frames += part.rows();
        table_.Write(Key(utt_id, stored.parts++), part);
      });
  stored.audio_s = static_cast<double>(samples) / front_end.options().sample_rate_hz;
  stored.zeros = zeros.Runs();
  index_ += fmt::format("{} {} {}\n", utt_id, stored.parts, stored.frames);
  return stored;
}

void FeaturePartsWriter::Close() {
  if (index_.empty()) {
    for (const char* name : {".ark", ".scp"}) std::filesystem::remove(folder_ / (std::string(kTable) + name));
    std::filesystem::remove(folder_ / kIndex);
    return;
  }
  table_.Close();
  WriteFileAtomically(folder_ / kIndex, index_);
}

bool FeatureParts::AreIn(const std::filesystem::path& folder) { return std::filesystem::exists(folder / kIndex); }

FeatureParts::FeatureParts(const std::filesystem::path& folder)
    : table_((folder / fmt::format("{}.scp", kTable)).string()) {
  const std::filesystem::path index = folder / kIndex;
  std::vector<DataProblem> problems;
  for (const TextLine& line : ReadTextTable(index, problems)) {
    Entry entry;
    const char* const end = line.rest.data() + line.rest.size();
    const auto parts = std::from_chars(line.rest.data(), end, entry.parts);
    const auto frames = std::from_chars(std::min(parts.ptr + 1, end), end, entry.frames);
    if (parts.ec != std::errc() || frames.ec != std::errc() || frames.ptr != end)
      Throw<InputError>("{}, utterance '{}': expected PARTS FRAMES, found '{}'", index.string(), line.key, line.rest);
    entries_.emplace(line.key, entry);
  }
  for (const DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("{}: {}", problem.where, problem.what);
  }
}

const FeatureParts::Entry* FeatureParts::Find(std::string_view utt_id) const {
  const auto found = entries_.find(utt_id);
  return found == entries_.end() ? nullptr : &found->second;
}

Matrix FeatureParts::Get(std::string_view utt_id, int64_t part) const { return table_.Get(Key(utt_id, part)); }

}  // namespace antiphon::data
