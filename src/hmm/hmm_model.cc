#include "hmm/hmm_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"

namespace antiphon::hmm {
namespace {

using Json = nlohmann::json;

Json TopologyToJson(const Topology& topology) {
  Json entries = Json::array();
  for (const TopologyEntry& entry : topology.entries()) {
    Json states = Json::array();
    for (const TopologyState& state : entry) {
      Json transitions = Json::array();
      for (const TopologyTransition& t : state.transitions) transitions.push_back({t.to, t.probability});
      states.push_back({{"pdf_class", state.pdf_class}, {"transitions", std::move(transitions)}});
      if (state.self_loop_pdf_class >= 0) states.back()["self_loop_pdf_class"] = state.self_loop_pdf_class;
    }
    entries.push_back(std::move(states));
  }
  return {{"entries", std::move(entries)}, {"entry_of_phone", topology.entry_of_phone()}};
}

Topology TopologyFromJson(const Json& json) {
  std::vector<TopologyEntry> entries;
  for (const Json& states : json.at("entries")) {
    TopologyEntry& entry = entries.emplace_back();
    for (const Json& state : states) {
      TopologyState& s = entry.emplace_back();
      s.pdf_class = state.at("pdf_class").get<int>();
      s.self_loop_pdf_class = state.value("self_loop_pdf_class", -1);
      for (const Json& t : state.at("transitions")) s.transitions.push_back({t.at(0).get<int>(), t.at(1).get<float>()});
    }
  }
  return {std::move(entries), json.at("entry_of_phone").get<std::vector<int>>()};
}

// Readers of the first format know neither classes for frames that stay nor windows of two phones: they must refuse.
const char* FormatOf(const Topology& topology, const ContextTree& tree) {
  bool new_kind = tree.width() == 2;
  for (const TopologyEntry& entry : topology.entries()) {
    for (const TopologyState& state : entry) new_kind = new_kind || state.self_loop_pdf_class >= 0;
  }
  return new_kind ? "antiphon-hmm-2" : "antiphon-hmm-1";
}

// A leaf is [pdf-id], an inner node [position, yes, no, [phones]].
Json TreeToJson(const ContextTree& tree) {
  Json nodes = Json::array();
  for (const TreeNode& node : tree.nodes()) {
    if (node.pdf_id >= 0) {
      nodes.push_back({node.pdf_id});
    } else {
      nodes.push_back({node.position, node.yes, node.no, node.phones});
    }
  }
  return {{"width", tree.width()}, {"nodes", std::move(nodes)}, {"roots", tree.roots()}};
}

ContextTree TreeFromJson(const Json& json) {
  std::vector<TreeNode> nodes;
  for (const Json& item : json.at("nodes")) {
    TreeNode& node = nodes.emplace_back();
    if (item.size() == 1) {
      node.pdf_id = item.at(0).get<int32_t>();
      if (node.pdf_id < 0) Throw<InputError>("context tree: pdf-id {}", node.pdf_id);
    } else {
      node.position = item.at(0).get<int32_t>();
      node.yes = item.at(1).get<int32_t>();
      node.no = item.at(2).get<int32_t>();
      node.phones = item.at(3).get<std::vector<int32_t>>();
    }
  }
  return {json.at("width").get<int>(), std::move(nodes), json.at("roots").get<std::vector<std::vector<int32_t>>>()};
}

}  // namespace

HmmModel::HmmModel(PhoneSet phones, Topology topology, ContextTree tree)
    : phones_(std::move(phones)), topology_(std::move(topology)), tree_(std::move(tree)) {
  if (topology_.num_phones() != phones_.num_phones() || tree_.num_phones() != phones_.num_phones())
    Throw<InputError>("{} phones, but a topology for {} and a context tree for {}", phones_.num_phones(),
                      topology_.num_phones(), tree_.num_phones());
  transitions_ = TransitionModel(topology_, tree_);
}

int32_t HmmModel::TransitionState(std::span<const int32_t> window, int hmm_state) const {
  const int32_t phone = window[static_cast<size_t>(tree_.central())];
  const TopologyState& topology = topology_.Entry(phone)[static_cast<size_t>(hmm_state)];
  const int32_t pdf = tree_.Pdf(window, topology.pdf_class);
  const int32_t loop_pdf = topology.self_loop_pdf_class < 0 ? pdf : tree_.Pdf(window, topology.self_loop_pdf_class);
  const int32_t state = transitions_.FindState(phone, hmm_state, pdf, loop_pdf);
  CHECK_NE(state, 0) << "phone " << phone << " state " << hmm_state;
  return state;
}

std::vector<PhoneSegment> HmmModel::SplitToPhones(std::span<const int32_t> alignment) const {
  std::vector<PhoneSegment> segments;
  bool inside = false;
  bool leaving = false;
  int32_t state = 0;
  for (size_t t = 0; t < alignment.size(); ++t) {
    const int32_t id = alignment[t];
    if (!transitions_.IsValid(id))
      Throw<InputError>("frame {}: transition-id {}; the model has 1 … {}", t, id, transitions_.num_transition_ids());
    if (transitions_.IsSelfLoop(id)) {
      if (!inside || transitions_.TransitionState(id) != state)
        Throw<InputError>("frame {}: a self-loop of a state that was not entered; is the alignment of another model?",
                          t);
    } else {
      if (!inside || leaving) {
        segments.push_back({transitions_.Phone(id), static_cast<int>(t), 0});
      } else if (transitions_.Phone(id) != segments.back().phone) {
        Throw<InputError>("frame {}: phone changes in the middle; is the alignment of another model?", t);
      }
      inside = true;
      leaving = transitions_.IsFinal(id);
      state = transitions_.TransitionState(id);
    }
    ++segments.back().num_frames;
  }
  if (inside && !leaving) throw InputError("the alignment ends inside a phone");
  return segments;
}

std::vector<int32_t> HmmModel::ToPdfs(std::span<const int32_t> alignment) const {
  std::vector<int32_t> pdfs;
  pdfs.reserve(alignment.size());
  for (const int32_t id : alignment) {
    if (!transitions_.IsValid(id))
      Throw<InputError>("transition-id {}; the model has 1 … {}", id, transitions_.num_transition_ids());
    pdfs.push_back(transitions_.Pdf(id));
  }
  return pdfs;
}

std::vector<int32_t> HmmModel::ConvertAlignment(std::span<const int32_t> alignment, const HmmModel& target) const {
  const std::vector<PhoneSegment> segments = SplitToPhones(alignment);
  std::vector<int32_t> converted(alignment.size());
  const int width = target.context_width();
  std::vector<int32_t> window(static_cast<size_t>(width));
  for (size_t s = 0; s < segments.size(); ++s) {
    for (int k = 0; k < width; ++k) {
      const auto at = static_cast<std::ptrdiff_t>(s) + k - width / 2;
      const bool there = at >= 0 && at < static_cast<std::ptrdiff_t>(segments.size());
      window[static_cast<size_t>(k)] = there ? segments[static_cast<size_t>(at)].phone : 0;
    }
    for (int t = segments[s].begin_frame; t < segments[s].begin_frame + segments[s].num_frames; ++t) {
      const int32_t id = alignment[static_cast<size_t>(t)];
      const int32_t first = transitions_.TransitionId(transitions_.TransitionState(id), 0);
      const int32_t state = target.TransitionState(window, transitions_.HmmState(id));
      converted[static_cast<size_t>(t)] = target.transitions().TransitionId(state, id - first);
    }
  }
  return converted;
}

std::string HmmModel::StructureChecksum() const {
  // Built anew, the transition probabilities are the topology's.
  return fmt::format("{:016x}", Checksum(HmmModel(phones_, topology_, tree_).ToJson()));
}

std::string HmmModel::ToJson() const {
  Json json;
  json["format"] = FormatOf(topology_, tree_);
  json["phones"] = phones_.Names();
  json["silence"] = phones_.SilenceNames();
  json["position_dependent"] = phones_.position_dependent();
  json["topology"] = TopologyToJson(topology_);
  json["tree"] = TreeToJson(tree_);
  json["transition_log_probs"] = std::vector<float>(transitions_.log_probs().begin(), transitions_.log_probs().end());
  return json.dump();
}

HmmModel HmmModel::FromJson(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != "antiphon-hmm-1" && json.at("format") != "antiphon-hmm-2")
      Throw<InputError>("unknown format '{}' of an HMM description", json.at("format").dump());
    HmmModel model(PhoneSet::FromList(json.at("phones").get<std::vector<std::string>>(),
                                      json.at("silence").get<std::vector<std::string>>(),
                                      json.at("position_dependent").get<bool>()),
                   TopologyFromJson(json.at("topology")), TreeFromJson(json.at("tree")));
    model.transitions_.SetLogProbs(json.at("transition_log_probs").get<std::vector<float>>());
    return model;
  } catch (const Json::exception& e) {
    Throw<InputError>("not an HMM description: {}", e.what());
  }
}

std::vector<float> LogPriors(std::span<const double> frame_counts, double floor) {
  double total = 0;
  for (const double count : frame_counts) total += std::max(count, floor);
  std::vector<float> priors;
  for (const double count : frame_counts)
    priors.push_back(static_cast<float>(std::log(std::max(count, floor) / total)));
  return priors;
}

}  // namespace antiphon::hmm
