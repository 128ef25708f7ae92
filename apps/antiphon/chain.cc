// antiphon chain: from an alignment to all that chain training needs.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "chain/chain_data.h"
#include "chain/chain_model.h"
#include "command.h"
#include "data/archive.h"
#include "data/file_checksums.h"
#include "hmm/gmm_model.h"
#include "hmm/hmm_file.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/align_source.h"
#include "pipeline/bundle.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Remarks = std::vector<std::pair<std::string, std::string>>;

struct ChainCommandOptions {
  std::string alignment, data, model, out;
  int step = 3;
  int tolerance = chain::NumeratorOptions{}.tolerance;
  data::FeatureSourceOptions features;
  chain::ChainTreeOptions tree;
  hmm::PhoneNgramOptions ngrams;

  template <class V>
  void Visit(V& v) {
    v("alignment", alignment, "folder that antiphon align left, of all speech that will be trained on");
    v("data", data, "folder with the features (feats.scp, cmvn.scp) of that speech, from which the tree is grown");
    v("model", model, "model of the alignment; empty: the one in its folder");
    v("out", out, "folder for model.safetensors, denominator.safetensors, phones.scp, pdf.scp and report.txt");
    v("frames-per-output", step, Range{1, 16}, "input frames per output of the network that will be trained");
    v("tolerance", tolerance, Range{0, 30},
      "input frames by which a phone's boundary may move; here to find utterances that cannot be trained on");
    features.Visit(v);
    v.Group("tree", tree);
    v.Group("ngrams", ngrams);
  }
};

data::FeatureSourceOptions TreeFeatures(const ChainCommandOptions& options, const std::string& model) {
  data::FeatureSourceOptions tables = pipeline::FindTables(options.data, options.features);
  if (!tables.speaker_model.empty() || !IsGmm(model)) return tables;
  // As the mixtures see them.
  tables.speaker_model = model;
  if (!tables.speaker_transforms.empty() || !hmm::GmmModel::Load(model).speaker_adaptive()) return tables;
  const fs::path transforms = fs::path(options.alignment) / "fmllr.scp";
  if (fs::exists(transforms)) tables.speaker_transforms = transforms.string();
  return tables;
}

struct Utterances {
  std::map<std::string, chain::Reference> references;
  hmm::TreeStats stats;
  Remarks left_out;
};

// The features may go on behind the alignment, as those of another front end do, but not far.
void RequireEqualLengths(const hmm::HmmModel& model, int64_t frames, int aligned) {
  constexpr int kMostBehind = 10;
  if (frames >= aligned && frames - aligned <= kMostBehind) return;
  const char* why = model.topology().IsChain()
                        ? "a chain network's has one transition-id per output: align by mixtures (antiphon align "
                          "without --model, or with a model of Gaussian mixtures)"
                        : "they were made with different frame shifts or from different audio";
  Throw<InputError>("{} frames of features but an alignment of {}; {}", frames, aligned, why);
}

Utterances Collect(const ChainCommandOptions& options, const hmm::HmmModel& model, const data::FeatureSource& features,
                   const std::string& table, int threads) {
  data::RequireTableAsWritten(table);
  const data::RandomAccessReader<std::vector<int32_t>> alignments(table);
  struct Part {
    chain::Reference reference;
    hmm::TreeStats stats;
    std::string problem;
  };
  const std::vector<std::string>& ids = alignments.keys();
  Utterances all;
  ParallelInOrder<Part>(
      ids.size(), threads,
      [&](size_t i) {
        return WithContext(
            [&] {
              Part part;
              part.reference = chain::ReferenceOf(model, alignments.Get(ids[i]));
              if (part.reference.phones.empty()) {
                part.problem = "its alignment is empty";
              } else if (!features.Has(ids[i])) {
                part.problem = "there are no features of it";
              } else {
                const Matrix frames = features.Get(ids[i]);
                RequireEqualLengths(model, frames.rows(), part.reference.num_frames());
                if (!AddChainTreeStats(part.reference, frames, 0, options.step, &part.stats)) {
                  part.problem = fmt::format("{} phones do not fit into {} frames with an output every {} frames",
                                             part.reference.phones.size(), part.reference.num_frames(), options.step);
                }
              }
              return part;
            },
            [&] { return fmt::format("'{}', utterance '{}'", table, ids[i]); });
      },
      [&](size_t i, Part&& part) {
        if (!part.problem.empty()) {
          all.left_out.emplace_back(ids[i], part.problem);
          return;
        }
        AddTreeStats(all.stats, part.stats);
        all.references[ids[i]] = std::move(part.reference);
      });
  return all;
}

void AddToReport(const std::string& title, const Remarks& remarks, std::string* text) {
  if (remarks.empty()) return;
  *text += fmt::format("\n{} ({}):\n", title, remarks.size());
  for (const auto& [utt_id, problem] : remarks) *text += fmt::format("  {}: {}\n", utt_id, problem);
}

void MakeChain(const ChainCommandOptions& options, CommandContext& context) {
  const fs::path folder(options.alignment), out(options.out);
  const std::string model_file =
      pipeline::PartsAt(options.model.empty() ? (folder / "model.safetensors").string() : options.model).model;
  const hmm::HmmModel model = hmm::LoadHmm(model_file);
  const data::FeatureSource features(TreeFeatures(options, model_file));
  Utterances all = Collect(options, model, features, (folder / "ali.scp").string(), context.threads());
  if (all.references.empty()) {
    Throw<InputError>("none of the {} utterances aligned in '{}' can be used; the first, '{}': {}", all.left_out.size(),
                      options.alignment, all.left_out.empty() ? "" : all.left_out[0].first,
                      all.left_out.empty() ? "" : all.left_out[0].second);
  }
  hmm::TreeReport tree;
  hmm::HmmModel chain_model = BuildChainModel(model.phones(), all.stats, options.tree, &tree);
  std::vector<std::vector<int32_t>> phones;
  for (const auto& [utt_id, reference] : all.references) phones.push_back(reference.phones);
  auto denominator = chain::DenominatorGraph::Build(chain_model, hmm::EstimatePhoneNgrams(phones, options.ngrams));
  const chain::ChainData data{std::move(chain_model), std::move(denominator),
                              chain::References(std::move(all.references)), options.step};
  const Remarks unusable = FindUnusable(data, {options.tolerance, options.step}, context.threads());
  const size_t states = data.denominator.states().size(), arcs = data.denominator.arcs().size();
  std::string report =
      fmt::format("{} utterances, {} tied states from {:.0f} outputs, denominator of {} states and {} arcs\n",
                  data.references.size(), data.model.num_pdfs(), tree.num_frames, states, arcs);
  report += fmt::format("tree: {} splits gain {:.3f} nats per output\n", tree.num_splits, tree.gain / tree.num_frames);
  AddToReport("left out", all.left_out, &report);
  AddToReport("cannot be learned from", unusable, &report);
  MakeFolder(out);
  WriteFileAtomically(out / "report.txt", report);
  data.Save(out);  // at last what says that the folder is whole
  const size_t lost = all.left_out.size() + unusable.size();
  if (lost > 0) {
    const auto& [utt_id, problem] = all.left_out.empty() ? unusable[0] : all.left_out[0];
    log::Warn("{} utterances cannot be trained on, the first '{}': {}; all stand in {}", lost, utt_id, problem,
              (out / "report.txt").string());
  }
  context.Print("{} tied states; denominator of {} states and {} arcs, from {} utterances", data.model.num_pdfs(),
                states, arcs, data.references.size());
  context.SetResult(Json({{"utterances", data.references.size()},
                          {"left_out", all.left_out.size()},
                          {"unusable", unusable.size()},
                          {"pdfs", data.model.num_pdfs()},
                          {"states", states},
                          {"arcs", arcs}})
                        .dump());
}

REGISTER_COMMAND(
    "chain", ChainCommandOptions, MakeChain,
    {.summary = "make states, denominator graph and references of chain training",
     .description =
         "From an alignment: a model of one state per phone whose entry and self-loop emit apart, tied by a tree of "
         "left "
         "neighbours at every third frame; the phone n-grams that all training competes with; and each utterance's "
         "phones with times. The tree is grown from the features that the alignment's mixtures see.",
     .example = "antiphon chain --alignment exp/align --data feats/train exp/chain",
     .positionals = {"out"},
     .required = {"alignment", "data", "out"},
     .common = {"model", "tree.leaves", "ngrams.order", "ngrams.long-histories", "frames-per-output"}});

}  // namespace
}  // namespace antiphon::app
