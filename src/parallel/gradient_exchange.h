// Sums the gradients of all ranks, layer by layer from the top while the lower layers still compute.
//
//   exchange.BeginMinibatch(frame_weight);              per minibatch; the loss is divided by total_weight()
//   network.Backward(…, exchange, …, [&](size_t layer) { exchange.LayerDone(layer); });
//   if (exchange.complete() && exchange.Finish()) step along exchange.gradient();
//
// Each matrix is cut into world_size parts. As soon as a layer's gradient is there, every rank sends part r, encoded,
// to rank r; rank r sums what it gets in the communicator's tree order and sends the sum, encoded again, to all; all
// decode the same bytes. With codec fp32 the sum has the bits of an AllReduce. Several minibatches may be accumulated
// first. Bytes per exchange and rank: 2·(world_size − 1)/world_size times the code of the model. Units: the sum is the
// gradient of the loss averaged over the frames of all ranks and accumulated minibatches, each by its weight; ranks
// without frames may take part. Memory: one gradient; with a lossy codec one or two more per plane of its memory.
//
// Where the ranks divide the optimiser's work (parallel/value_share.h), a rank's part is what it steps, and its sum is
// sent to nobody:
//   if (exchange.complete() && exchange.Finish()) { step own rows along exchange.own_sum(…); exchange.GatherValues(); }
// Then the values go round in fp32, layer by layer from the top, so that few are under way. Where they divide the
// gradients too, memory is the own part's and one layer's gradient. Of sums that a codec may find unusable (fp16) they
// tell each other, by a sum of one value per exchange.
//
// Where lost ranks are survived (comm/loss_tolerance.h), the sum does not overwrite this rank's gradient, for a second
// one in memory: Finish is a Together, which sums anew what those that are left have, with their frames alone. Only
// with a codec that keeps nothing, and where nothing is divided.
// Threads: one per rank. Determinism: all ranks get the same bits; messages may arrive in any order.
// Errors: PeerError and InputError from messages.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "nn/gradient_sink.h"
#include "nn/network.h"
#include "parallel/codec.h"
#include "parallel/strategy.h"
#include "parallel/value_share.h"

namespace antiphon::parallel {

struct ExchangeOptions {
  double codec_start_epochs = 0;  // in fp32, before the codec takes over
  int accumulate = 1;             // minibatches
  Divide divide = Divide::kNothing;
};

class GradientExchange : public nn::GradientSink {
 public:
  /// `codec`: the strategy's table of that name. UsageError if codec and optimiser both have momentum, and for what
  /// does not go with a division: a codec that cuts matrices by columns; kGradients with accumulation.
  GradientExchange(const Config& codec, const ExchangeOptions& options, const Replica& replica);

  void BeginMinibatch(double frame_weight);
  /// What the loss of the minibatch that was begun is to be divided by.
  double total_weight() const { return total_weight_; }
  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override;
  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override;
  void LayerDone(size_t layer);

  /// The minibatch under way is the last of those that are accumulated.
  bool complete() const { return minibatches_ == options_.accumulate; }
  /// Minibatches whose gradients wait for the exchange.
  int minibatches() const { return minibatches_; }
  /// Waits for the sum. False: a codec found it unusable, and the step must not be taken; all ranks get the same
  /// answer.
  bool Finish();
  std::span<const float> gradient() const { return sum_.empty() ? gradient_ : sum_; }
  /// Lost ranks can be survived. While Finish waits for others, `finishing`.
  bool keeps_nothing() const { return share_ == nullptr && memory_.empty() && sum_memory_.empty(); }
  bool finishing() const { return finishing_; }
  /// Of the rows of parameter `number` that this rank steps, where the ranks divide that.
  ConstMatrixView own_sum(size_t number);
  /// Sends the rows that this rank stepped to all, and takes theirs. Collective.
  void GatherValues();
  /// Seconds spent on encoding, sending and waiting since the last call.
  double TakeSeconds() { return std::exchange(seconds_, 0.0); }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);
  /// What waits with other than world_size() ranks is dealt to those that there are. One that learned alone kept
  /// nothing: `steps` of the ranks of now lead as far into the run.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix, int64_t steps);
  void ResetState();
  std::string Describe() const { return codec_->Describe(); }
  /// The gradient, what its codec holds back, and everybody's gradients of the widest layer's part.
  size_t copy_bytes() const;

 private:
  struct Layer {
    std::vector<nn::Parameter*> parameters;  // those that learn
    bool sent = false;
    bool reduced = false;
    Code own_code;  // of the part that this rank sums
  };

  double FullWeight() const;
  void BeginExchange();
  void Exchange(bool again);
  bool SumsAreUsable();
  void Start(size_t layer);
  double Epoch() const;
  Codec& codec();
  Codec& CodecOf(const nn::Parameter& p);
  void Encode(const nn::Parameter& p, ConstMatrixView values, std::span<const MatrixView> memory, Code& code);
  void EncodeSum(const nn::Parameter& p, ConstMatrixView sum, Code& code);
  size_t Decode(const nn::Parameter& p, std::span<const std::byte> code, MatrixView values);
  size_t DecodeSum(const nn::Parameter& p, std::span<const std::byte> code, MatrixView sum);
  void Handled(comm::Handling what, ConstMatrixView values);
  void RequireDivisible(const Config& codec) const;
  void AddLayers();
  MatrixView Part(const nn::Parameter& p, MatrixView matrix, int r) const;
  RowShare Rows(const nn::Parameter& p, int r) const { return share_->Of(numbers_.at(&p), r); }
  MatrixView OwnSum(const nn::Parameter& p);
  std::vector<MatrixView> Memory(std::vector<std::vector<float>>& planes, const nn::Parameter& p, int r);
  MatrixView Target(const nn::Parameter& parameter);
  MatrixView SumTarget(const nn::Parameter& parameter);
  bool Touch(const nn::Parameter& parameter);
  void ClearUntouched(const Layer& layer);
  void Send(size_t layer);
  bool Arrived(size_t layer);
  void Reduce(size_t layer);
  void Gather(size_t layer);
  void GatherValues(size_t layer);
  std::span<float> RowsOf(nn::Parameter& p, int r) const;
  void SumParts(nn::Parameter& p, const std::vector<Code>& codes, std::vector<size_t>& at, float factor);

  nn::Network& network_;
  comm::Communicator& comm_;
  std::unique_ptr<Codec> exact_;
  std::unique_ptr<Codec> codec_;
  std::string codec_name_;
  ExchangeOptions options_;
  Plan plan_;
  double total_weight_;
  const ValueShare* share_;  // null: all step everything

  std::vector<Layer> layers_;
  std::map<const nn::Parameter*, bool> touched_;    // in this step
  std::map<const nn::Parameter*, size_t> numbers_;  // in the network
  std::map<const nn::Parameter*, int64_t> firsts_;  // value of the network that gradient_ begins with, for it
  std::vector<float> gradient_;                     // laid out as network.values(), or of one layer
  std::vector<float> sum_;                          // likewise, where losses are survived; else the gradient's place
  std::vector<float> own_;                          // where the ranks divide the gradients: what this one steps
  std::vector<std::vector<float>> memory_;          // planes likewise
  std::vector<std::vector<float>> sum_memory_;      // used in this rank's parts only
  std::vector<Matrix> parts_;                       // one per rank
  int64_t steps_ = 0;                               // exchanges of the run
  int minibatches_ = 0;
  double weight_ = 0;
  double seconds_ = 0;
  bool finishing_ = false;
  std::optional<comm::PeerLost> loss_;  // that LayerDone met
};

}  // namespace antiphon::parallel
