// Hessian-free training of networks that look at several frames or carry a state: it learns, keeps what minibatches
// only lend, leaves training's streams alone, and the number of workers only divides the streams.
#include <gtest/gtest.h>

#include "parallel/lent_streams.h"
#include "parallel/small_learner.h"
#include "temporary_folder.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kChunks = 9;

const char kTdnn[] =
    "layer = [{type='tdnn', dim=9}, {type='tanh'}, {type='tdnn', dim=8, offsets=[-2, 0, 1]}, {type='relu'}, "
    "{type='affine'}]";
const char kLstmNetwork[] =
    "layer = [{type='tdnn', dim=8, offsets=[0, 1]}, {type='lstm', dim=7, projection=5}, {type='gru', dim=6}, "
    "{type='affine'}]";
const char kConvolution[] =
    "layer = [{type='convolution', filters=3, offsets=[-1, 0]}, {type='relu'}, {type='pooling', channels=3, window=2}, "
    "{type='tdnn', dim=8}, {type='tanh'}, {type='affine'}]";

const char kHessianFree[] =
    "method = \"hessian-free\"\ncurvature-minibatches = 99\ncheck-minibatches = 1\ndamping = 0.1\n";

nn::Network Make(const char* toml) { return {Config::Parse(toml, "net"), kFeatures, kPdfs, 3}; }

struct Plans {
  std::string method = kHessianFree;
  int workers = 1;
  int epochs = 1;
  bool spoil = true;
  StreamOptions streams = {};
};

void Steps(Learner& learner, Streams& streams, int64_t first, int64_t last, bool spoil = true) {
  for (int64_t chunk = first; chunk < last; ++chunk) {
    learner.strategy->Step(streams.Chunk(chunk));
    if (spoil) streams.Spoil();
  }
}

std::vector<std::vector<float>> Train(const char* network, const Plans& run, std::vector<double>* losses = nullptr) {
  return OnRanks(run.workers, [&](comm::Communicator& comm) {
    Learner learner(run.method, comm, "type = \"sgd\"\nmomentum = 0.5\n", Make(network));
    // Without spoiling, each chunk has memory of its own to the end.
    std::vector<std::unique_ptr<Streams>> own;
    const TimeContext context = learner.network.time_context();
    Streams shared(context, run.streams, comm.rank(), run.workers);
    for (int epoch = 0; epoch < run.epochs; ++epoch) {
      for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
        if (!run.spoil) {
          own.push_back(std::make_unique<Streams>(context, run.streams, comm.rank(), run.workers));
        }
        Steps(learner, run.spoil ? shared : *own.back(), chunk, chunk + 1, run.spoil);
      }
      learner.EndEpoch();
      if (losses != nullptr && comm.rank() == 0)
        losses->push_back(LossOfStreams(learner.network, kChunks, run.streams));
    }
    return learner.Values();
  });
}

TEST(HessianFreeOfSequences, LearnsInFewerPassesThanGradientDescent) {
  for (const char* network : {kTdnn, kLstmNetwork, kConvolution}) {
    for (const char* preconditioner : {"diagonal", "lbfgs", "none"}) {
      for (const bool alone : {false, true}) {
        nn::Network untrained = Make(network);
        if (alone && !untrained.recurrent()) continue;
        SCOPED_TRACE(std::string(network) + " " + preconditioner + (alone ? ", chunks alone" : ""));
        Plans run = {.epochs = 8, .streams = {.alone = alone}};
        run.method += std::string("preconditioner = \"") + preconditioner + "\"\n";
        std::vector<double> losses = {LossOfStreams(untrained, kChunks, run.streams)}, by_sgd;
        Train(network, run, &losses);
        run.method = "method = \"serial\"\n";
        Train(network, run, &by_sgd);
        // The line search holds states constant that a chunk takes over from the one before.
        const double rise = untrained.recurrent() && !alone ? 0.05 : 1e-6;
        for (size_t i = 1; i < losses.size(); ++i) EXPECT_LE(losses[i], losses[i - 1] + rise) << "step " << i;
        EXPECT_LT(losses.back(), 0.5 * losses.front());
        EXPECT_LT(losses.back(), by_sgd.back());
      }
    }
  }
}

// States that go on from chunk to chunk included: each worker carries those of its streams. Without the diagonal, which
// squares sums over a minibatch where a layer does not hand over single frames (peepholes).
TEST(HessianFreeOfSequences, WorkersOnlyDivideTheStreams) {
  for (const char* network : {kTdnn, kLstmNetwork}) {
    const std::string method = std::string(kHessianFree) + "preconditioner = \"none\"\n";
    const auto alone = Train(network, {.method = method});
    for (const int workers : {2, 4}) {
      for (const std::vector<float>& values : Train(network, {.method = method, .workers = workers})) {
        EXPECT_LT(LargestDifference(values, alone[0]), 1e-4) << network << ", " << workers << " workers";
      }
    }
  }
}

TEST(HessianFreeOfSequences, KeepsWhatMinibatchesOnlyLend) {
  for (const char* network : {kTdnn, kLstmNetwork}) {
    EXPECT_EQ(Train(network, {.epochs = 2}), Train(network, {.epochs = 2, .spoil = false})) << network;
  }
}

TEST(HessianFreeOfSequences, PaddingCountsForNothing) {
  for (const char* network : {kTdnn, kLstmNetwork}) {
    EXPECT_EQ(Train(network, {.epochs = 2}), Train(network, {.epochs = 2, .streams = {.padding = 30.0f}})) << network;
  }
}

// Products and line search run on other minibatches than the next: those go on from where the streams are.
TEST(HessianFreeOfSequences, StreamsGoOnAsIfThereHadBeenNoStep) {
  const testing::TemporaryFolder folder;
  const auto comm = comm::MakeSelfCommunicator();
  Learner learner(kHessianFree, *comm, "type = \"sgd\"\n", Make(kLstmNetwork));
  Streams streams(learner.network.time_context());
  Steps(learner, streams, 0, 5);
  const auto states = [&] {
    SafetensorsWriter writer;
    learner.strategy->SaveStreams(writer, "streams");
    writer.Write(folder / "streams.safetensors");
    const SafetensorsReader reader(folder / "streams.safetensors");
    const auto bytes = reader.Tensor("streams").data;
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const std::vector<std::byte> before = states();
  const std::vector<float> values = learner.Values();
  learner.EndEpoch();
  EXPECT_NE(learner.Values(), values);
  EXPECT_EQ(states(), before);
}

// In the middle of a gradient, after a step: what was kept has its layout and its states in the checkpoint.
TEST(HessianFreeOfSequences, ResumedInTheMiddleGivesTheSameBits) {
  const testing::TemporaryFolder folder;
  const auto comm = comm::MakeSelfCommunicator();
  for (const char* network : {kTdnn, kLstmNetwork}) {
    const auto learner = [&] {
      return std::make_unique<Learner>(kHessianFree, *comm, "type = \"sgd\"\n", Make(network));
    };
    const auto whole = learner(), second = learner();
    Streams streams(whole->network.time_context());
    Steps(*whole, streams, 0, kChunks);
    whole->EndEpoch();
    Steps(*whole, streams, kChunks, kChunks + 4);
    whole->Save(folder / "state.safetensors");
    SafetensorsWriter writer;
    whole->strategy->SaveStreams(writer, "streams");
    writer.Write(folder / "streams.safetensors");
    second->Load(folder / "state.safetensors");
    second->strategy->LoadStreams(SafetensorsReader(folder / "streams.safetensors"), "streams");
    for (Learner* l : {whole.get(), second.get()}) {
      Steps(*l, streams, kChunks + 4, 2 * kChunks);
      l->EndEpoch();
    }
    EXPECT_EQ(second->Values(), whole->Values()) << network;
  }
}

TEST(HessianFreeOfSequences, LayersWithoutATangentAreNamed) {
  const auto comm = comm::MakeSelfCommunicator();
  try {
    Learner(kHessianFree, *comm, "type = \"sgd\"\n",
            Make("layer = [{type='tdnn', dim=8}, {type='circulant-affine', dim=8}, {type='affine'}]"));
    FAIL() << "expected UsageError";
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("'circulant-affine1'"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace antiphon::parallel
