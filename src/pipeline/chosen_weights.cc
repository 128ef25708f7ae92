#include "pipeline/chosen_weights.h"

#include "base/config.h"
#include "base/error.h"
#include "base/file.h"

namespace antiphon::pipeline {

ChosenWeights ReadChosenWeights(const std::filesystem::path& file) {
  const Config config = Config::Load(file);
  for (const char* key : {"lm-weight", "word-penalty"}) {
    if (!config.Has(key)) Throw<InputError>("'{}' lacks {}; antiphon decode --tune writes both", file.string(), key);
  }
  return ReadOptions<ChosenWeights>(config);
}

void WriteChosenWeights(const std::filesystem::path& file, const ChosenWeights& chosen, const std::string& remark) {
  WriteFileAtomically(file,
                      fmt::format("# {}\nlm-weight = {}\nword-penalty = {}\nrisk-scale = {}\ncontrast = {}\n", remark,
                                  chosen.lm_weight, chosen.word_penalty, chosen.risk_scale, chosen.contrast));
}

}  // namespace antiphon::pipeline
