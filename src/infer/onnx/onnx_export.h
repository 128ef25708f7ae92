// A model as an ONNX file, for runtimes other than this one.
//
//   ExportOnnx(model, {.input = "frames", .prior_scale = 1}, "model.onnx");
//
// Input "x": spliced frames [frames, in_dim] as the network takes them, or ("frames") one row of features per frame
// [frames, feature_dim] of a whole utterance, which the file splices, repeating the first and the last one. Output "y"
// [outputs, heads · pdf-ids]: log-posteriors, or logits; minus prior_scale times the log-priors, and kDisabledScore
// (base/score_source.h) for classes that training never saw; a row per frame, or of a network with a stride K per K
// frames, ⌈frames / K⌉ in all. Layers that see several frames (time-delay, factorised) take their context from
// neighbouring rows: of spliced input the caller gives "frames_before" rows before the first frame, repeats of its row,
// and "frames_behind" of the last one's behind it, as the metadata say. Features must be normalised as in training; how
// is there too, with all else that the model knows of itself.
// Layers of few bits, masks or circulant blocks become matrix products with the values that they stand for; 8-bit
// inputs become a pair QuantizeLinear, DequantizeLinear. Opset 13, IR version 7. Errors: InputError naming a layer that
// has no form in ONNX here (recurrent ones), and those that have.
#pragma once

#include <filesystem>
#include <string>

#include "base/options.h"
#include "nn/model.h"

namespace antiphon::infer {

struct OnnxOptions {
  std::string input = "spliced";
  bool log_softmax = true;
  double prior_scale = 0;
  template <class V>
  void Visit(V& v) {
    v("input", input, OneOf{{"spliced", "frames"}},
      "what a row of the input is: spliced frames, or a frame of a whole utterance that the file splices");
    v("log-softmax", log_softmax, "outputs are log-posteriors; without: logits");
    v("prior-scale", prior_scale, Range{0.0, 10.0}, "weight of the log-priors that are taken out; decoding wants 1");
  }
};

void ExportOnnx(const nn::Model& model, const OnnxOptions& options, const std::filesystem::path& path);

}  // namespace antiphon::infer
