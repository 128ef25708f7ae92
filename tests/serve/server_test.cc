// A whole server within the test, and a client of Vosk's protocol in C++ as vosk-server ships one, written anew.
#include "serve/net/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/websocket.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "api/two_words.h"
#include "base/error.h"
#include "serve/clock.h"
#include "serve/net/beast.h"
#include "serve/pages.h"
#include "without_threads.h"

namespace antiphon::serve {
namespace {

using nlohmann::json;
namespace websocket = boost::beast::websocket;

std::vector<int16_t> Samples(int count) {
  std::vector<int16_t> samples;
  for (const float sample : testing::Noise(count)) {
    samples.push_back(static_cast<int16_t>(std::lround(std::clamp(sample, -32768.0F, 32767.0F))));
  }
  return samples;
}

class VoskClient {
 public:
  explicit VoskClient(int port, const std::string& target = "/") : ws_(io_) {
    boost::asio::connect(ws_.next_layer(), Tcp::resolver(io_).resolve("127.0.0.1", std::to_string(port)));
    ws_.handshake("127.0.0.1", target);
  }
  void Say(std::string_view text) {
    ws_.text(true);
    ws_.write(boost::asio::buffer(text.data(), text.size()));
  }
  void Say(std::span<const int16_t> samples) {
    ws_.binary(true);
    ws_.write(boost::asio::buffer(samples.data(), samples.size_bytes()));
  }
  void SayBytes(std::string_view bytes) {
    ws_.binary(true);
    ws_.write(boost::asio::buffer(bytes.data(), bytes.size()));
  }
  /// Calls `answered` when the server answers it, which this notices while it hears.
  void Ping(std::function<void()> answered) {
    ws_.control_callback([answered = std::move(answered)](websocket::frame_type kind, boost::beast::string_view) {
      if (kind == websocket::frame_type::pong) answered();
    });
    ws_.ping({});
  }
  json Hear() {
    boost::beast::flat_buffer buffer;
    ws_.read(buffer);
    EXPECT_TRUE(ws_.got_text());
    return json::parse(boost::beast::buffers_to_string(buffer.data()));
  }
  /// Of all results until the server closes.
  json WordsToTheEnd() {
    json words = json::array();
    for (;;) {
      boost::beast::flat_buffer buffer;
      ErrorCode error;
      ws_.read(buffer, error);
      if (error) return words;
      const json reply = json::parse(boost::beast::buffers_to_string(buffer.data()));
      for (const json& word : reply.value("result", json::array())) words.push_back(word);
    }
  }
  websocket::close_reason Closed() {
    boost::beast::flat_buffer buffer;
    ErrorCode error;
    while (!error) ws_.read(buffer, error);
    EXPECT_EQ(error, websocket::error::closed);
    return ws_.reason();
  }

 private:
  boost::asio::io_context io_;
  websocket::stream<Tcp::socket> ws_;
};

class Servers : public ::testing::Test {
 protected:
  Recognizer MakeRecognizer() const {
    return {(system_.folder / "net.safetensors").string(), (system_.folder / "graph").string(), {.beam = 8}};
  }
  static StreamSettings Settings() { return {.max_utterance_s = 0.9, .cmvn_min_window = 30}; }
  void Start(const ServeOptions& given) {
    ServeOptions options = given;
    options.port = 0;
    server_.emplace(options, Settings(), models_, log_.get(), kThreads);
    running_ = std::thread([this] { server_->Run(); });
  }
  void TearDown() override {
    if (!running_.joinable()) return;
    server_->Stop();
    running_.join();
  }
  json ExpectedWords(std::span<const int16_t> samples, int rate_hz) const {
    Stream stream = MakeRecognizer().NewStream(rate_hz, Settings());
    std::vector<StreamEvent> events = stream.Accept(samples);
    for (StreamEvent& event : stream.End()) events.push_back(std::move(event));
    json words = json::array();
    for (const StreamEvent& event : events) {
      if (!event.final) continue;
      for (const RecognizedWord& word : event.words) {
        words.push_back({{"conf", word.confidence},
                         {"start", std::round(word.start_s * 100) / 100},
                         {"end", std::round(word.end_s * 100) / 100},
                         {"word", word.word}});
      }
    }
    return words;
  }

  static constexpr int kThreads = 2;
  const testing::TwoWords system_{false};
  ModelSet models_{{"two=" + (system_.folder / "net.safetensors").string()}, "", [this](const std::string&) {
                     return MakeRecognizer();
                   }};
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> log_{nullptr, &std::fclose};  // null: none is written
  std::optional<Server> server_;
  std::thread running_;
};

TEST_F(Servers, AnswerACppClientWithTheWordsOfTheLibrary) {
  Start({});
  const std::vector<int16_t> samples = Samples(4 * 16000);
  const json expected = ExpectedWords(samples, 16000);
  ASSERT_GE(expected.size(), 3U);
  std::vector<std::future<json>> clients;
  for (const size_t piece : {1600U, 3200U, 777U, 64000U}) {
    clients.push_back(std::async(std::launch::async, [&, piece] {
      VoskClient client(server_->port());
      client.Say(R"({"config" : {"sample_rate" : 16000.0}})");
      json words = json::array();
      const auto add = [&](const json& reply) {
        for (const json& word : reply.value("result", json::array())) words.push_back(word);
      };
      for (size_t at = 0; at < samples.size(); at += piece) {
        client.Say(std::span(samples).subspan(at, std::min(piece, samples.size() - at)));
        add(client.Hear());
      }
      client.Say(R"({"eof" : 1})");
      add(client.Hear());
      EXPECT_EQ(client.Closed().code, websocket::close_code::normal);
      return words;
    }));
  }
  for (auto& client : clients) EXPECT_EQ(client.get(), expected);
}

// Keeps threads of a scheduler from computing until it is let go.
class Holds {
 public:
  Holds(Scheduler& scheduler, int threads) {
    for (int i = 0; i < threads; ++i) {
      const auto hold = std::make_shared<Hold>();
      scheduler.Submit(hold, 0);
      hold->begun.get_future().wait();
      holds_.push_back(hold);
    }
  }
  Holds(const Holds&) = delete;
  ~Holds() { LetGo(); }
  void LetGo() {
    for (const auto& hold : std::exchange(holds_, {})) hold->go_on.set_value();
  }

 private:
  struct Hold : Task {
    void Step() override {
      begun.set_value();
      go_on.get_future().wait();
    }
    std::promise<void> begun, go_on;
  };
  std::vector<std::shared_ptr<Hold>> holds_;
};

TEST_F(Servers, RefuseNewStreamsWhileSpeechWaits) {
  ServeOptions options;
  options.limits.delay_s = 0.05;
  Start(options);
  VoskClient early(server_->port());
  early.Say(std::span<const int16_t>(Samples(80)));
  early.Hear();
  Holds holds(server_->context().scheduler, kThreads);
  struct Nothing : Task {
    void Step() override {}
  };
  server_->context().scheduler.Submit(std::make_shared<Nothing>(), NowSeconds() - 1);
  VoskClient late(server_->port());
  const auto closed = late.Closed();
  EXPECT_EQ(closed.code, websocket::close_code::try_again_later);
  EXPECT_THAT(std::string(closed.reason.c_str()), ::testing::HasSubstr("speech waits for"));
  EXPECT_EQ(server_->context().metrics.Value("antiphon_refused_total", R"(reason="delay")"), 1);
  holds.LetGo();
  early.Say(R"({"eof" : 1})");
  EXPECT_TRUE(early.Hear().contains("text"));
  EXPECT_EQ(early.Closed().code, websocket::close_code::normal);
}

TEST_F(Servers, ForgetClientsThatVanish) {
  Start({});
  const std::vector<int16_t> samples = Samples(8000);
  for (int i = 0; i < 30; ++i) {
    VoskClient client(server_->port());
    client.Say(samples);
    if (i % 2 == 0) client.Hear();
  }
  // A slot that never came back would stop this one sooner or later.
  for (int tries = 0; server_->context().streams.taken() > 0; ++tries) {
    ASSERT_LT(tries, 100000);
    VoskClient client(server_->port());
    client.Say(R"({"eof" : 1})");
    client.Hear();
    client.Closed();
  }
}

TEST_F(Servers, SayWhyTheyCloseInUtf8) {
  Start({});
  VoskClient client(server_->port(), "/?model=%ff");
  client.Say(R"({"eof" : 1})");
  const auto closed = client.Closed();
  EXPECT_EQ(closed.code, websocket::close_code::policy_error);
  EXPECT_THAT(std::string(closed.reason.c_str()), ::testing::HasSubstr(R"('\xFF')"));
}

TEST_F(Servers, NameModels) {
  Start({});
  const auto asked = [&](const std::string& path) {
    RequestHead head;
    head.method = "GET";
    head.path = path;
    return AnswerPage(head, server_->context());
  };
  EXPECT_EQ(asked("/v1/models/two")->status, 200);
  EXPECT_EQ(asked("/v1/models/t%77o")->status, 200);
  EXPECT_EQ(asked("/v1/models/t+o")->status, 404);
  const auto load = [this](const std::string&) { return MakeRecognizer(); };
  EXPECT_EQ(ModelSet({"exp/one//", "exp/two.antiphon", "c=exp/three/"}, "", load).Names(), "one, two, c");
}

TEST_F(Servers, KeepOldModelsThatAreInUse) {
  Start({});
  const std::vector<int16_t> samples = Samples(2 * 8000);
  VoskClient client(server_->port());
  client.Say(std::span(samples).first(8000));
  json words = client.Hear().value("result", json::array());
  const auto before = models_.Find("two");
  models_.Reload();
  EXPECT_NE(models_.Find("two"), before);
  client.Say(std::span(samples).subspan(8000));
  for (const json& word : client.Hear().value("result", json::array())) words.push_back(word);
  client.Say(R"({"eof" : 1})");
  for (const json& word : client.Hear().value("result", json::array())) words.push_back(word);
  EXPECT_EQ(words, ExpectedWords(samples, 8000));
}

TEST_F(Servers, GoOnWithoutAThreadThatReloads) {
  Start({});
  VoskClient client(server_->port());
  const auto reloads = [&](const char* outcome) {
    return server_->context().metrics.Value("antiphon_reloads_total", outcome);
  };
  // Whoever is answered knows that the server's thread did what it was asked to before.
  const auto answered = [&] {
    client.Say(std::span<const int16_t>(Samples(80)));
    client.Hear();
  };
  answered();
  {
    const antiphon::testing::WithoutThreads without;
    server_->Reload();
    answered();
    EXPECT_EQ(reloads(R"(outcome="failed")"), 1);
  }
  server_->Reload();
  for (int tries = 0; reloads(R"(outcome="done")") == 0; ++tries) {
    ASSERT_LT(tries, 100000);
    answered();
  }
}

constexpr int kCallHz = 16000;
constexpr const char* kCallConfig = R"({"config" : {"sample_rate" : 16000}})";

// Without waiting for the answer, as clients do that begin the next call at once.
TEST_F(Servers, HearWhatFollowsAReset) {
  Start({});
  const std::vector<int16_t> samples = Samples(4 * kCallHz);
  const json once = ExpectedWords(samples, kCallHz);
  ASSERT_FALSE(once.empty());
  json expected = once;
  for (const json& word : once) expected.push_back(word);
  Holds holds(server_->context().scheduler, kThreads);
  VoskClient client(server_->port());
  client.Say(kCallConfig);
  client.Say(samples);
  client.Say(R"({"reset" : 1})");
  client.Say(samples);
  client.Say(R"({"eof" : 1})");
  VoskClient other(server_->port());  // now the server has read what it reads of the first one
  holds.LetGo();
  EXPECT_EQ(client.WordsToTheEnd(), expected);
}

TEST_F(Servers, ForgetHalfASampleWithAReset) {
  Start({});
  const std::vector<int16_t> samples = Samples(4 * kCallHz);
  const json expected = ExpectedWords(samples, kCallHz);
  ASSERT_FALSE(expected.empty());
  VoskClient client(server_->port());
  client.Say(kCallConfig);
  client.SayBytes("abc");
  client.Hear();
  client.Say(R"({"reset" : 1})");
  client.Hear();
  client.Say(samples);
  client.Say(R"({"eof" : 1})");
  EXPECT_EQ(client.WordsToTheEnd(), expected);
}

TEST_F(Servers, KeepWhoWaitsForTheResultLongerThanIdleClients) {
  ServeOptions options;
  options.limits.idle_s = 0.2;
  Start(options);
  const std::vector<int16_t> samples = Samples(4 * kCallHz);
  const json expected = ExpectedWords(samples, kCallHz);
  ASSERT_FALSE(expected.empty());
  Holds holds(server_->context().scheduler, kThreads);
  VoskClient client(server_->port());
  client.Say(kCallConfig);
  client.Say(samples);
  client.Say(R"({"eof" : 1})");
  // Idle clients are the clock: each is let go after limits.idle seconds.
  for (int i = 0; i < 4; ++i) VoskClient(server_->port()).WordsToTheEnd();
  holds.LetGo();
  EXPECT_EQ(client.WordsToTheEnd(), expected);
}

TEST_F(Servers, CountIdleTimeFromTheLastAnswer) {
  const std::string log = system_.folder / "log";
  log_.reset(std::fopen(log.c_str(), "w"));
  ASSERT_NE(log_.get(), nullptr);
  ServeOptions options;
  options.limits.idle_s = 2;
  options.limits.delay_s = 600;
  Start(options);
  const std::vector<int16_t> samples = Samples(80);
  Holds holds(server_->context().scheduler, kThreads);
  VoskClient waiting(server_->port());
  waiting.Say(samples);
  VoskClient silent(server_->port());
  VoskClient(server_->port()).Say(kCallConfig);  // now the time of the silent one is being counted
  holds.LetGo();
  waiting.Hear();
  EXPECT_EQ(silent.Closed().code, websocket::close_code::policy_error);
  EXPECT_EQ(waiting.Closed().code, websocket::close_code::policy_error);
  TearDown();  // then the log is whole
  // The piece came before the silent client did, its answer after that.
  std::vector<int> let_go;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["event"] == "stream-end" && event["outcome"] == "idle") let_go.push_back(event["stream"].get<int>());
  }
  EXPECT_EQ(let_go, (std::vector<int>{2, 1}));
}

TEST_F(Servers, CountSecondsOfSpeechWhateverItsRates) {
  ServeOptions options;
  options.limits.stream_s = 2;
  Start(options);
  const auto closed = [&](int first_hz, int second_hz, double second_s) {
    VoskClient client(server_->port());
    for (const auto& [rate_hz, seconds] : {std::pair(first_hz, 1.5), std::pair(second_hz, second_s)}) {
      client.Say(R"({"config" : {"sample_rate" : )" + std::to_string(rate_hz) + "}}");
      const std::vector<int16_t> samples = Samples(static_cast<int>(seconds * rate_hz));
      client.Say(samples);
      client.Say(rate_hz == first_hz ? R"({"reset" : 1})" : R"({"eof" : 1})");
    }
    return client.Closed().code;
  };
  for (const auto& [first_hz, second_hz] : {std::pair(16000, 8000), std::pair(8000, 16000)}) {
    EXPECT_EQ(closed(first_hz, second_hz, 0.25), websocket::close_code::normal) << first_hz;
    EXPECT_EQ(closed(first_hz, second_hz, 1.0), websocket::close_code::policy_error) << first_hz;
  }
}

TEST_F(Servers, AnswerPingsWhileTheLastResultIsComputed) {
  ServeOptions options;
  options.limits.idle_s = 2;
  Start(options);
  Holds holds(server_->context().scheduler, kThreads);
  VoskClient client(server_->port());
  client.Say(std::span<const int16_t>(Samples(800)));
  client.Say(R"({"eof" : 1})");
  client.Ping([&] { holds.LetGo(); });
  EXPECT_TRUE(client.Hear().contains("partial"));
  EXPECT_TRUE(client.Hear().contains("text"));
  EXPECT_EQ(client.Closed().code, websocket::close_code::normal);
}

TEST_F(Servers, WantTokensWhereOthersReachThem) {
  ServeOptions options;
  options.address = "0.0.0.0";
  EXPECT_THROW(Server(options, Settings(), models_, nullptr, 1), UsageError);
  options.address = "example.org";
  EXPECT_THROW(Server(options, Settings(), models_, nullptr, 1), UsageError);
}

}  // namespace
}  // namespace antiphon::serve
