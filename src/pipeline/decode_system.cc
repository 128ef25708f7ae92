#include "pipeline/decode_system.h"

#include "pipeline/load_rescorer.h"

namespace antiphon::pipeline {

DecodeSystem::DecodeSystem(const DecodeRequest& request)
    : model_(AcousticModel::Load(request.model, NetworkOptions(request))),
      profiles_(request.profiles, *model_),
      graph_(LoadGraph(request.graph, model_->hmm(), request.changes, request.recognize.bias)),
      weights_(Weights(request, model_->hmm())),
      rescorer_(LoadRescorer(request.rescore_arpa, request.graph_arpa, graph_)) {
  bias_ = decode::MakeBias(graph_, request.recognize.bias);
  recognizer_.emplace(*model_, graph_, request.recognize, request.pieces, weights_,
                      FeatureShiftSeconds(*model_, request.model), rescorer_.get(), bias_.get());
}

}  // namespace antiphon::pipeline
