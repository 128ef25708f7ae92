// Frame stores on servers: the same bits as from a folder, whatever goes wrong on the way; or an error that says what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/file.h"
#include "data/minibatch_pool.h"
#include "faults/store_server.h"
#include "store_fixture.h"

namespace antiphon::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kDim = 40;
constexpr uint64_t kMiB = 1 << 20;

// About 4 MB in five shards, which many tests read.
const fs::path& Store() {
  static const ::antiphon::testing::TemporaryFolder folder;
  static const bool made = [] {
    MakeStore(folder / "store", 120, kDim, 30, {.shard_mib = 1}, 1600);
    return true;
  }();
  static const fs::path path = folder / "store";
  (void)made;
  return path;
}

uint64_t ChecksumOf(const FrameStore& store) {
  uint64_t sum = 0;
  for (size_t u = 0; u < store.utterances().size(); ++u) {
    Matrix m(store.utterances()[u].num_frames, store.feat_dim());
    store.ReadFrames(u, 0, m);
    std::vector<int32_t> pdfs(static_cast<size_t>(m.rows()));
    store.ReadPdfIds(u, pdfs);
    sum = MixSeed(sum, Checksum(std::as_bytes(std::span(m.data(), static_cast<size_t>(m.size())))));
    sum = MixSeed(sum, Checksum(std::as_bytes(std::span(pdfs))));
  }
  return sum;
}

FrameStoreAccess IndexOnly() {
  FrameStoreAccess access;
  access.index_only = true;
  return access;
}

class RemoteStore : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CurlLibrary().empty()) GTEST_SKIP() << "built without libcurl";
  }
  FrameStoreAccess Access(uint64_t limit = 100 * kMiB) const {
    FrameStoreAccess access;
    access.cache.cache_dir = (folder_ / "cache").string();
    access.cache.cache_limit_gb = static_cast<double>(limit) / 1e9;
    access.cache.fetch.fetch_attempts = 3;
    access.cache.fetch.fetch_stall_s = 1;
    return access;
  }
  FrameStore Open(const std::string& fault, uint64_t limit = 100 * kMiB) const {
    return FrameStore(server_.With(fault), Access(limit));
  }
  // What the server was asked for.
  Json Log() const {
    return Json::parse(RemoteFolder(server_.host()).Read("log", kMiB, [] { return false; }));
  }
  int ShardsAskedOf(const std::string& fault) const {
    int times = 0;
    for (const Json& request : Log()) {
      times += request["path"].get<std::string>().starts_with("/" + fault + "/shard-") ? 1 : 0;
    }
    return times;
  }
  int TimesAsked(const std::string& file) const {
    int times = 0;
    for (const Json& request : Log()) times += request["path"].get<std::string>().ends_with("/" + file) ? 1 : 0;
    return times;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  ::antiphon::testing::StoreServer server_{Store()};
  const FrameStore local_{Store()};
};

TEST_F(RemoteStore, HasTheBitsOfTheFolder) {
  const FrameStore remote = Open("plain");
  EXPECT_EQ(remote.fingerprint(), local_.fingerprint());
  EXPECT_EQ(remote.folder().string(), server_.With("plain")) << "an address stays as it is";
  EXPECT_TRUE(remote.is_remote());
  EXPECT_EQ(ChecksumOf(remote), ChecksumOf(local_));
  EXPECT_EQ(remote.CountPdfs(), local_.CountPdfs());
  EXPECT_EQ(EstimateMoments(remote, {}, 5000).mean, EstimateMoments(local_, {}, 5000).mean);
  // What is in the cache is not fetched again.
  EXPECT_EQ(ChecksumOf(Open("plain/")), ChecksumOf(local_));
  for (size_t s = 0; s < local_.num_shards(); ++s) EXPECT_EQ(TimesAsked(local_.ShardFile(s).filename()), 1);
  EXPECT_EQ(TimesAsked("index.bin"), 1);
}

TEST_F(RemoteStore, SurvivesWhatServersAndNetworksDo) {
  const uint64_t bits = ChecksumOf(local_);
  for (const std::string fault : {"busy", "cut", "cut-no-range", "stall", "moved"}) {
    fs::remove_all(folder_ / "cache");
    EXPECT_EQ(ChecksumOf(Open(fault)), bits) << fault;
  }
  // Where it broke off, it went on.
  std::map<std::string, int> resumed;
  for (const Json& request : Log()) {
    if (request["range"] != "") ++resumed[request["path"].get<std::string>().substr(0, 5)];
  }
  EXPECT_EQ(resumed["/cut/"], 1 + static_cast<int>(local_.num_shards())) << "index and shards, but not store.json";
}

TEST_F(RemoteStore, WhatItCannotGetIsAnErrorThatSaysWhatAndWhy) {
  const auto open = [&](const std::string& fault) { return [this, fault] { ChecksumOf(Open(fault)); }; };
  const auto says = [](const std::vector<std::string>& texts) {
    return ::testing::ResultOf(
        [texts](const InputError& e) {
          for (const std::string& text : texts) {
            if (std::string(e.what()).find(text) == std::string::npos) return "no '" + text + "' in: " + e.what();
          }
          return std::string("all");
        },
        "all");
  };
  EXPECT_THAT(open("missing"), ::testing::Throws<InputError>(says(
                                   {server_.With("missing"), "store.json", "HTTP status 404", "address of a frame"})));
  EXPECT_THAT(open("denied"), ::testing::Throws<InputError>(says({"HTTP status 403", ".netrc"})));
  EXPECT_THAT(open("dead"), ::testing::Throws<InputError>(says({"HTTP status 500", "3 attempts", "fetch-attempts"})));
  EXPECT_THAT(open("loop"), ::testing::Throws<InputError>(says({"redirect"})));
  EXPECT_THAT(open("away"), ::testing::Throws<InputError>(says({"rotocol \"file\""})));
  EXPECT_THAT(open("frozen"), ::testing::Throws<InputError>(says({"Operation too slow", "3 attempts"})));
  EXPECT_THAT(open("grown"), ::testing::Throws<InputError>(says({"index.bin", "it was replaced"})));
  EXPECT_THAT(open("long"), ::testing::Throws<InputError>(says({"expected"})));
  EXPECT_THAT(open("wrong"), ::testing::Throws<InputError>(
                                 says({"shard-0000", "utt1", "the checksum is wrong", server_.With("wrong")})));
  EXPECT_THAT(
      [] {
        FrameStoreAccess access = IndexOnly();
        access.cache.fetch.fetch_attempts = 2;
        access.cache.fetch.fetch_stall_s = 1;
        FrameStore("http://127.0.0.1:1/store", access);
      },
      ::testing::Throws<InputError>(says({"http://127.0.0.1:1/store", "Is the server up"})));
  EXPECT_THAT([&] { FrameStore(server_.With("plain")); },
              ThrowsMessage<UsageError>(HasSubstr("set data.cache-dir to a folder of this machine")));
}

TEST_F(RemoteStore, AnIndexCanBeReadWithoutACache) {
  const FrameStore remote(server_.With("plain"), IndexOnly());
  EXPECT_EQ(remote.num_frames(), local_.num_frames());
  Matrix m(1, kDim);
  EXPECT_THAT([&] { remote.ReadFrames(0, 0, m); }, ThrowsMessage<InputError>(HasSubstr("for its index alone")));
  EXPECT_THAT([&] { FrameStoreWriter(server_.With("plain"), 5, 5); },
              ThrowsMessage<UsageError>(HasSubstr("copy it there")));
}

TEST_F(RemoteStore, ACacheSmallerThanTheStoreIsEnough) {
  // Two shards of five, read by several threads in orders of their own.
  const FrameStore remote = Open("plain", 2 * kMiB + kMiB / 2);
  ASSERT_GE(remote.num_shards(), 4u);
  const size_t n = remote.utterances().size();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t k = 0; k < 3; ++k) {
    threads.emplace_back([&, k] {
      for (size_t i = 0; i < n; ++i) {
        const size_t u = k == 0 ? i : k == 1 ? n - 1 - i : i * 37 % n;
        Matrix a(local_.utterances()[u].num_frames, kDim), b(a.rows(), kDim);
        local_.ReadFrames(u, 0, a);
        remote.ReadFrames(u, 0, b);
        wrong += std::equal(a.data(), a.data() + a.size(), b.data()) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  uint64_t bytes = 0;
  for (const auto& file : fs::recursive_directory_iterator(folder_ / "cache")) {
    if (file.is_regular_file()) bytes += file.file_size();
  }
  EXPECT_LE(bytes, 2 * kMiB + kMiB / 2);
}

TEST_F(RemoteStore, WantedShardsAreFetchedInTheirOrderBeforeTheyAreRead) {
  const FrameStore remote = Open("plain");
  remote.FetchAhead(7, std::vector<size_t>{2, 0, 1});
  EXPECT_EQ(remote.FinishFetching(), 3u);
  std::vector<std::string> order;
  for (const Json& request : Log()) {
    const std::string path = request["path"];
    if (path.ends_with(".frames")) order.push_back(fs::path(path).filename());
  }
  EXPECT_EQ(order, (std::vector<std::string>{"shard-00002.frames", "shard-00000.frames", "shard-00001.frames"}));
}

TEST_F(RemoteStore, ProcessesShareACache) {
  const uint64_t bits = ChecksumOf(local_);
  std::vector<pid_t> children;
  for (int p = 0; p < 3; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        ::_exit(ChecksumOf(Open("slow")) == bits ? 0 : 1);
      } catch (const std::exception&) {
        ::_exit(2);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  for (size_t s = 0; s < local_.num_shards(); ++s) {
    EXPECT_EQ(TimesAsked(local_.ShardFile(s).filename()), 1) << "one process fetches a shard for all";
  }
}

// Who does not hear it waits for longer than a test may take, and then fails for want of the shard.
TEST_F(RemoteStore, ARequestToStopEndsWaiting) {
  FrameStoreAccess access = Access();
  access.cache.fetch.fetch_stall_s = 600;
  EXPECT_EQ(ChecksumOf(Open("plain")), ChecksumOf(local_));
  fs::remove_all(folder_ / "cache");
  auto remote = std::make_unique<FrameStore>(server_.With("stall-shards"), access);
  std::atomic<bool> asked = false, over = false;
  const CancelScope scope(&asked);
  std::thread later([&] {
    while (!over && ShardsAskedOf("stall-shards") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    asked = true;
  });
  EXPECT_THROW(ChecksumOf(*remote), Cancelled);
  remote.reset();
  over = true;
  later.join();
  EXPECT_EQ(ShardsAskedOf("stall-shards"), 1) << "nothing was waited for a second time";
}

// The bits of an epoch do not depend on where the store is and what the cache holds.
TEST_F(RemoteStore, MinibatchesAreThoseOfTheFolder) {
  for (const int chunk : {0, 100}) {
    MinibatchOptions options;
    options.minibatch = 500;
    options.chunk_frames = chunk;
    options.carry_state = false;
    options.shuffle_frames = 5000;
    options.shards_at_once = 2;
    const auto bits = [&](const FrameStore& store) {
      // The pool does not own it.
      const MinibatchPool pool({&store, [](const FrameStore*) {}}, options, 3);
      MinibatchBuffer buffer;
      uint64_t sum = 0;
      for (int64_t i = 0; i < pool.num_minibatches(1); ++i) {
        pool.Fill(1, 0, i, buffer);
        const MatrixView x = buffer.minibatch.features;
        sum = MixSeed(sum, Checksum(std::as_bytes(std::span(x.data(), static_cast<size_t>(x.size())))));
      }
      return sum;
    };
    fs::remove_all(folder_ / "cache");
    EXPECT_EQ(bits(Open("plain", 2 * kMiB + kMiB / 2)), bits(local_)) << chunk;
    options.shards_at_once = 0;
    EXPECT_THAT(
        [&] { bits(Open("plain", 2 * kMiB + kMiB / 2)); },
        ThrowsMessage<UsageError>(AllOf(HasSubstr("are read together"), HasSubstr("set data.shards-at-once to 1"))));
  }
}

// Each shard is fetched once in an epoch by groups, though the cache holds two of five.
TEST_F(RemoteStore, GroupsOfShardsAreFetchedOnceEach) {
  const FrameStore remote = Open("plain", 2 * kMiB + kMiB / 2);
  MinibatchOptions options;
  options.shards_at_once = 1;
  options.shuffle_frames = 5000;
  const auto pool = std::make_shared<const MinibatchPool>(
      std::shared_ptr<const FrameStore>(&remote, [](const FrameStore*) {}), options, 3);
  MinibatchStream stream(pool, 0, 0);
  while (stream.Next() != nullptr) {
  }
  for (size_t s = 0; s < remote.num_shards(); ++s) EXPECT_EQ(TimesAsked(remote.ShardFile(s).filename()), 1) << s;
}

class SignedStore : public RemoteStore {
 protected:
  SignedStore() {
    Set("AWS_ENDPOINT_URL", server_.With("s3").c_str());
    Set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    Set("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    Set("AWS_SESSION_TOKEN", "a-token/+=");
    Set("AWS_REGION", "eu-central-1");
  }
  ~SignedStore() override {
    for (const std::string& name : set_) ::unsetenv(name.c_str());
  }
  void Set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    set_.emplace_back(name);
  }
  std::vector<std::string> set_;
};

TEST_F(SignedStore, IsReadWithKeysFromTheEnvironment) {
  EXPECT_EQ(ChecksumOf(FrameStore("s3://bucket", Access())), ChecksumOf(local_));
  fs::create_directories(Store() / "a b+c");
  fs::copy_file(Store() / "store.json", Store() / "a b+c" / "store.json", fs::copy_options::overwrite_existing);
  fs::copy_file(Store() / "index.bin", Store() / "a b+c" / "index.bin", fs::copy_options::overwrite_existing);
  EXPECT_EQ(FrameStore("s3://bucket/a b+c/", IndexOnly()).num_frames(), local_.num_frames());
}

TEST_F(SignedStore, RefusesOtherKeysAndSaysWhichSettingsToCheck) {
  const auto open = [&] { FrameStore("s3://bucket", Access()); };
  Set("AWS_SECRET_ACCESS_KEY", "another");
  EXPECT_THAT(open, ThrowsMessage<InputError>(AllOf(HasSubstr("HTTP status 403 (SignatureDoesNotMatch"),
                                                    HasSubstr("check AWS_ACCESS_KEY_ID"))));
  ::unsetenv("AWS_ACCESS_KEY_ID");
  EXPECT_THAT(open, ThrowsMessage<UsageError>(HasSubstr("belong together")));
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("no keys are given")));
}

TEST(RemotePlaceTest, TellsAddressesFromFoldersAndFindsBuckets) {
  const auto nothing = [](const char*) { return std::string(); };
  EXPECT_TRUE(IsRemote("http://a/b"));
  EXPECT_TRUE(IsRemote("HTTPS://a/b"));
  EXPECT_TRUE(IsRemote("s3://bucket"));
  EXPECT_FALSE(IsRemote("exp/store"));
  EXPECT_FALSE(IsRemote("/http://a"));
  EXPECT_FALSE(IsRemote("file:///etc"));
  EXPECT_EQ(RemotePlace::Parse("http://a/b//", nothing).UrlOf("x"), "http://a/b/x");
  EXPECT_EQ(RemotePlace::Parse("s3://bucket/a b/", nothing).url, "https://bucket.s3.us-east-1.amazonaws.com/a%20b");
  EXPECT_EQ(RemotePlace::Parse("s3://my.bucket/p", nothing).url, "https://s3.us-east-1.amazonaws.com/my.bucket/p");
  const auto minio = [](const char* name) {
    return std::string(name == std::string("AWS_ENDPOINT_URL_S3") ? "http://minio:9000/" : "");
  };
  EXPECT_EQ(RemotePlace::Parse("s3://bucket/p", minio).url, "http://minio:9000/bucket/p");
  for (const char* wrong : {"http://", "http:///p", "http://me:secret@host/p", "http://h/p?x=1", "http://h/p#x",
                            "http://h/a b", "s3://", "s3:///p", "s3://b?x/p"}) {
    EXPECT_THROW(RemotePlace::Parse(wrong, nothing), UsageError) << wrong;
  }
  try {
    RemotePlace::Parse("https://me:secret@host/p", nothing);
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), Not(HasSubstr("secret")));
    EXPECT_THAT(e.what(), HasSubstr(".netrc"));
  }
}

// A variable of the environment, while this lives.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name), before_(RemotePlace::FromProcess(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  Setting(const Setting&) = delete;
  ~Setting() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

TEST_F(RemoteStore, NamesAndPasswordsAreThoseOfNetrc) {
  const Setting home("HOME", (folder_ / "home").string());
  fs::create_directories(folder_ / "home");
  const auto open = [&] { return ChecksumOf(Open("private")); };
  EXPECT_THAT(open, ThrowsMessage<InputError>(AllOf(HasSubstr("HTTP status 401"), HasSubstr("~/.netrc"))));
  const auto write = [&](const std::string& text) { WriteFileAtomically(folder_ / "home" / ".netrc", text); };
  write("machine 127.0.0.1 login reader password wrong\n");
  EXPECT_THAT(open, ThrowsMessage<InputError>(HasSubstr("HTTP status 401")));
  write("machine example.org login a password b\nmachine 127.0.0.1 login reader password sesame\n");
  EXPECT_EQ(open(), ChecksumOf(local_));
}

TEST_F(RemoteStore, GoesThroughTheProxyThatTheEnvironmentNames) {
  {
    const Setting proxy("http_proxy", server_.host());
    EXPECT_EQ(ChecksumOf(FrameStore("http://speech.example/plain", Access())), ChecksumOf(local_));
  }
  const Json log = Log();
  ASSERT_GT(log.size(), local_.num_shards());
  for (const Json& request : log) EXPECT_EQ(request["proxy_to"], "speech.example");
}

// Self-signed certificates are refused unless CURL_CA_BUNDLE or AWS_CA_BUNDLE names them.
class RemoteTls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CurlLibrary().empty()) GTEST_SKIP() << "built without libcurl";
    const std::string key = (folder_ / "key.pem").string();
    const std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext "
        "subjectAltName=IP:127.0.0.1 -keyout " +
        key + " -out " + certificate_ + " 2>/dev/null";
    if (std::system(make.c_str()) != 0) GTEST_SKIP() << "there is no openssl";
    server_.emplace(Store(), std::vector<std::string>{certificate_, key});
  }
  static int64_t FramesAt(const std::string& address) { return FrameStore(address, IndexOnly()).num_frames(); }

  ::antiphon::testing::TemporaryFolder folder_;
  const std::string certificate_ = (folder_ / "certificate.pem").string();
  std::optional<::antiphon::testing::StoreServer> server_;
};

TEST_F(RemoteTls, VerifiesCertificates) {
  const auto frames = [&] { return FramesAt(server_->With("plain")); };
  EXPECT_THAT(frames, ThrowsMessage<InputError>(AllOf(HasSubstr("certificate"), HasSubstr("CURL_CA_BUNDLE"))));
  const Setting trusted("CURL_CA_BUNDLE", certificate_);
  EXPECT_EQ(frames(), FrameStore(Store()).num_frames());
}

TEST_F(RemoteTls, AmazonsVariableNamesCertificatesOfS3) {
  const Setting endpoint("AWS_ENDPOINT_URL", server_->With("plain"));
  fs::create_directories(Store() / "bucket");
  for (const char* file : {"store.json", "index.bin"}) {
    fs::copy_file(Store() / file, Store() / "bucket" / file, fs::copy_options::overwrite_existing);
  }
  const auto frames = [&] { return FramesAt("s3://bucket"); };
  EXPECT_THAT(frames, ThrowsMessage<InputError>(HasSubstr("certificate")));
  const Setting trusted("AWS_CA_BUNDLE", certificate_);
  EXPECT_EQ(frames(), FrameStore(Store()).num_frames());
  EXPECT_THAT([&] { FramesAt(server_->With("plain")); }, ThrowsMessage<InputError>(HasSubstr("certificate")))
      << "of S3 alone";
}

}  // namespace
}  // namespace antiphon::data
