#include "pipeline/decode_system.h"

#include "base/error.h"
#include "decode/ngram.h"

namespace antiphon::pipeline {

DecodeSystem::DecodeSystem(const DecodeRequest& request)
    : model_(AcousticModel::Load(request.model, NetworkOptions(request))),
      profiles_(request.profiles, *model_),
      graph_(decode::Graph::Load(request.graph, model_->hmm())),
      weights_(Weights(request, model_->hmm())) {
  if (request.rescore_arpa.empty() != request.graph_arpa.empty()) {
    throw UsageError("--rescore-arpa and --graph-arpa belong together");
  }
  if (!request.rescore_arpa.empty()) {
    rescorer_.emplace(decode::NgramModel::ReadArpa(request.graph_arpa),
                      decode::NgramModel::ReadArpa(request.rescore_arpa), graph_.words());
  }
  bias_ = decode::MakeBias(graph_, request.recognize.bias);
  recognizer_.emplace(*model_, graph_, request.recognize, request.pieces, weights_,
                      FeatureShiftSeconds(*model_, request.model), rescorer_ ? &*rescorer_ : nullptr, bias_.get());
}

}  // namespace antiphon::pipeline
