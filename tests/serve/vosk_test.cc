#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "serve/shown_event.h"
#include "serve/vosk_message.h"
#include "serve/vosk_reply.h"

namespace antiphon::serve {
namespace {

using nlohmann::json;

TEST(VoskMessage, ReadsConfigsAsClientsWriteThem) {
  VoskConfig config;
  EXPECT_EQ(ReadVoskMessage(R"({"config" : { "sample_rate" : 16000.0, "words": 0, "max_alternatives": "3",
                                "phrase_list": ["one two", "[unk]"], "model": "en", "unheard of": {}}})",
                            config),
            VoskSays::kConfig);
  EXPECT_EQ(config.sample_rate_hz, 16000);
  EXPECT_FALSE(config.words);
  EXPECT_EQ(config.max_alternatives, 3);
  EXPECT_EQ(config.phrase_list, (std::vector<std::string>{"one two", "[unk]"}));
  EXPECT_EQ(config.model, "en");
  // What a second one does not name stays.
  ReadVoskMessage(R"({"config":{"sample_rate":"44100","words":true,"hotwords":["a",{"phrase":"b c","bonus":2.5}]}})",
                  config);
  EXPECT_EQ(config.sample_rate_hz, 44100);
  EXPECT_TRUE(config.words);
  EXPECT_EQ(config.max_alternatives, 3);
  ASSERT_EQ(config.hotwords.size(), 2U);
  EXPECT_EQ(config.hotwords[1].phrase, "b c");
  EXPECT_EQ(config.hotwords[1].bonus, 2.5);
}

TEST(VoskMessage, KnowsTheEndInAnySpelling) {
  VoskConfig config;
  for (const char* text : {R"({"eof" : 1})", R"({"eof":1})", "{\n \"eof\" :true}", R"({"eof": 1.0, "more": []})"}) {
    EXPECT_EQ(ReadVoskMessage(text, config), VoskSays::kEnd) << text;
  }
  EXPECT_EQ(ReadVoskMessage(R"({"reset" : 1})", config), VoskSays::kReset);
}

TEST(VoskMessage, RefusesTheRestAndChangesNothing) {
  VoskConfig config;
  config.sample_rate_hz = 11025;
  const std::string deep = std::string(100000, '[');
  for (const std::string& text :
       {std::string("eof"), std::string("{}"), std::string("[]"), std::string(R"({"eof":0})"), deep,
        std::string(R"({"config":7})"), std::string(R"({"config":{"words":1,"sample_rate":0}})"),
        std::string(R"({"config":{"sample_rate":1e300}})"), std::string(R"({"config":{"sample_rate":"fast"}})"),
        std::string(R"({"config":{"sample_rate":16000,"max_alternatives":-1}})"),
        std::string(R"({"config":{"phrase_list":"a"}})"), std::string(R"({"config":{"phrase_list":[1]}})"),
        std::string(R"({"config":{"format":"xml"}})"), std::string("{\"config\":{\"model\":7}}")}) {
    EXPECT_THROW(ReadVoskMessage(text, config), UsageError) << text.substr(0, 80);
    EXPECT_EQ(config.sample_rate_hz, 11025);
  }
}

StreamEvent Final(const std::string& text, std::vector<RecognizedWord> words) {
  StreamEvent event;
  event.final = true;
  event.text = text;
  event.words = std::move(words);
  return event;
}

StreamEvent Partial(const std::string& text) {
  StreamEvent event;
  event.text = text;
  return event;
}

TEST(ShownEvent, IsWrittenWhereThatIsKnown) {
  StreamEvent event = Final("twenty one", {{"twenty", 0.5, 1.0, 0.9}, {"one", 1.0, 1.5, 0.8}});
  EXPECT_EQ(ShownEvent(event), event);
  event.written = "21.";
  event.written_words = {{"21.", 0.5, 1.5, 0.8}};
  const StreamEvent shown = ShownEvent(event);
  EXPECT_EQ(shown.text, "21.");
  EXPECT_EQ(shown.words, event.written_words);
}

TEST(VoskReply, HasVosksForms) {
  VoskConfig config;
  StreamEvent so_far;
  EXPECT_EQ(json::parse(VoskReply({}, false, config, so_far)), json::parse(R"({"partial":""})"));
  std::vector<StreamEvent> events = {Partial("one")};
  EXPECT_EQ(json::parse(VoskReply(events, false, config, so_far)), json::parse(R"({"partial":"one"})"));
  EXPECT_EQ(json::parse(VoskReply({}, false, config, so_far)), json::parse(R"({"partial":"one"})"));
  events = {Final("one two", {{"one", 0.104, 0.5, 0.75}, {"two", 0.5, 0.9, 1.0}})};
  const auto words = json::parse(R"([{"conf":0.75,"start":0.1,"end":0.5,"word":"one"},
                                     {"conf":1.0,"start":0.5,"end":0.9,"word":"two"}])");
  EXPECT_EQ(json::parse(VoskReply(events, false, config, so_far)), (json{{"result", words}, {"text", "one two"}}));
  EXPECT_EQ(so_far, StreamEvent());
  config.words = false;
  EXPECT_EQ(json::parse(VoskReply(events, false, config, so_far)), (json{{"text", "one two"}}));
  EXPECT_EQ(json::parse(VoskReply({}, true, config, so_far)), (json{{"text", ""}}));
}

// Until the next event, each reply says the same.
TEST(VoskReply, HasWordsOfWhatIsUnderstoodSoFarIfAskedTo) {
  VoskConfig config;
  ReadVoskMessage(R"({"config":{"partial_words":1}})", config);
  StreamEvent so_far;
  StreamEvent event = Partial("one two");
  event.words = {{"one", 0.104, 0.5, -1.0}, {"two", 0.5, 0.9, -1.0}};
  const auto words = json::parse(R"([{"start":0.1,"end":0.5,"word":"one"},{"start":0.5,"end":0.9,"word":"two"}])");
  const json expected = {{"partial", "one two"}, {"partial_result", words}};
  EXPECT_EQ(json::parse(VoskReply(std::vector<StreamEvent>{event}, false, config, so_far)), expected);
  EXPECT_EQ(json::parse(VoskReply({}, false, config, so_far)), expected);
  config.partial_words = false;
  EXPECT_EQ(json::parse(VoskReply({}, false, config, so_far)), json::parse(R"({"partial":"one two"})"));
}

TEST(VoskReply, PutsUtterancesOfOneMessageTogether) {
  VoskConfig config;
  StreamEvent so_far;
  const std::vector<StreamEvent> events = {Final("one", {{"one", 0, 1, 1}}), Final("", {}), Partial("x"),
                                           Final("two", {{"two", 2, 3, 1}}), Partial("thr")};
  const json reply = json::parse(VoskReply(events, false, config, so_far));
  EXPECT_EQ(reply["text"], "one two");
  EXPECT_EQ(reply["result"].size(), 2U);
  EXPECT_EQ(json::parse(VoskReply({}, false, config, so_far)), json::parse(R"({"partial":"thr"})"));
}

TEST(VoskReply, GivesAlternatives) {
  VoskConfig config;
  config.max_alternatives = 2;
  StreamEvent so_far;
  StreamEvent event = Final("one", {{"one", 0.1, 0.5, 0.75}});
  event.nbest = {{"one", 3.5, 1, 2}, {"won", 4.5, 1, 3}};
  const std::vector<StreamEvent> events = {event};
  const json reply = json::parse(VoskReply(events, true, config, so_far));
  ASSERT_EQ(reply["alternatives"].size(), 2U);
  EXPECT_EQ(reply["alternatives"][0]["text"], "one");
  EXPECT_EQ(reply["alternatives"][0]["confidence"], -3.5);
  EXPECT_EQ(reply["alternatives"][0]["result"], json::parse(R"([{"start":0.1,"end":0.5,"word":"one"}])"));
  EXPECT_EQ(reply["alternatives"][1]["text"], "won");
  EXPECT_FALSE(reply.contains("text"));
  EXPECT_EQ(json::parse(VoskReply({}, true, config, so_far)),
            json::parse(R"({"alternatives":[{"confidence":1.0,"text":""}]})"));
}

}  // namespace
}  // namespace antiphon::serve
