#include "antiphon.h"
#include "api/c_handles.h"

namespace antiphon::c {
namespace {

const RecognizedWord* Word(const antiphon_result* result, size_t i) noexcept {
  return At(result == nullptr ? nullptr : &result->recognition.words, i);
}

const AlignedWord* SpokenWord(const antiphon_result* result, size_t i) noexcept {
  return At(result == nullptr ? nullptr : &result->speech.words, i);
}

const AlignedPhone* Phone(const antiphon_result* result, size_t i) noexcept {
  return At(result == nullptr ? nullptr : &result->speech.phones, i);
}

const Hypothesis* HypothesisOf(const antiphon_result* result, size_t i) noexcept {
  return At(result == nullptr ? nullptr : &result->recognition.nbest, i);
}

}  // namespace

void Clear(antiphon_result& result) {
  result.recognition = {};
  result.speech = {};
  result.json.clear();
  result.textgrid.clear();
}

void Take(Recognition&& recognition, antiphon_result& result) {
  result.json = ToJson(recognition);
  result.recognition = std::move(recognition);
}

void Take(AlignedSpeech&& speech, antiphon_result& result) {
  result.json = ToJson(speech);
  result.textgrid = ToTextGrid(speech);
  for (const AlignedWord& word : speech.words) {
    result.recognition.text += (result.recognition.text.empty() ? "" : " ") + word.word;
    result.recognition.words.push_back({word.word, word.start_s, word.end_s, -1.0});
  }
  result.speech = std::move(speech);
}

// What antiphon.h declares, libantiphon.so shows.
#pragma GCC visibility push(default)
extern "C" {

antiphon_result* antiphon_result_new(void) {
  return MakeHandle<antiphon_result>([](antiphon_result&) {});
}

antiphon_status antiphon_result_set_nbest(antiphon_result* result, int nbest) {
  if (result == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(result->outcome, [&] { result->call.nbest = nbest; });
}

antiphon_status antiphon_result_set_speaker(antiphon_result* result, const antiphon_speaker* speaker) {
  if (result == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(result->outcome, [&] {
    if (speaker != nullptr && speaker->speaker == nullptr) {
      Throw<UsageError>("the speaker could not be made: {}", speaker->outcome.error);
    }
    result->speaker = speaker == nullptr ? nullptr : speaker->speaker;
    result->call.profile = result->speaker ? result->speaker->profile : SpeakerProfile();
    result->call.memory = result->speaker ? &result->speaker->memory : nullptr;
  });
}

antiphon_status antiphon_result_set_progress(antiphon_result* result, antiphon_progress_callback callback,
                                             void* user_data) {
  if (result == nullptr) return ANTIPHON_ERROR_USAGE;
  return Guarded(result->outcome, [&] {
    result->call.progress = nullptr;
    if (callback != nullptr) result->call.progress = [=](double done_s) { callback(done_s, user_data); };
  });
}

antiphon_status antiphon_result_status(const antiphon_result* result) { return LastStatus(result); }
const char* antiphon_result_error(const antiphon_result* result) { return LastError(result, "the result is NULL"); }
const char* antiphon_result_text(const antiphon_result* result) {
  return result == nullptr ? "" : result->recognition.text.c_str();
}
const char* antiphon_result_json(const antiphon_result* result) {
  return result == nullptr ? "" : result->json.c_str();
}
const char* antiphon_result_written(const antiphon_result* result) {
  return result == nullptr ? "" : result->recognition.written.c_str();
}
const char* antiphon_result_remark(const antiphon_result* result) {
  return result == nullptr ? "" : result->recognition.remark.c_str();
}
size_t antiphon_result_num_audio_remarks(const antiphon_result* result) {
  return result == nullptr ? 0 : result->recognition.audio_remarks.size();
}
const char* antiphon_result_audio_remark(const antiphon_result* result, size_t i) {
  const std::string* remark = At(result == nullptr ? nullptr : &result->recognition.audio_remarks, i);
  return remark == nullptr ? "" : remark->c_str();
}
const char* antiphon_result_textgrid(const antiphon_result* result) {
  return result == nullptr ? "" : result->textgrid.c_str();
}

size_t antiphon_result_num_words(const antiphon_result* result) {
  return result == nullptr ? 0 : result->recognition.words.size();
}
const char* antiphon_result_word(const antiphon_result* result, size_t i) {
  return TextOf(Word(result, i), &RecognizedWord::word);
}
double antiphon_result_word_start(const antiphon_result* result, size_t i) {
  return ValueOf(Word(result, i), &RecognizedWord::start_s);
}
double antiphon_result_word_end(const antiphon_result* result, size_t i) {
  return ValueOf(Word(result, i), &RecognizedWord::end_s);
}
double antiphon_result_word_confidence(const antiphon_result* result, size_t i) {
  return ValueOf(Word(result, i), &RecognizedWord::confidence);
}

size_t antiphon_result_num_phones(const antiphon_result* result) {
  return result == nullptr ? 0 : result->speech.phones.size();
}
const char* antiphon_result_phone(const antiphon_result* result, size_t i) {
  return TextOf(Phone(result, i), &AlignedPhone::phone);
}
double antiphon_result_phone_start(const antiphon_result* result, size_t i) {
  return ValueOf(Phone(result, i), &AlignedPhone::start_s);
}
double antiphon_result_phone_end(const antiphon_result* result, size_t i) {
  return ValueOf(Phone(result, i), &AlignedPhone::end_s);
}
size_t antiphon_result_word_first_phone(const antiphon_result* result, size_t i) {
  return static_cast<size_t>(ValueOf(SpokenWord(result, i), &AlignedWord::first_phone));
}
size_t antiphon_result_word_num_phones(const antiphon_result* result, size_t i) {
  return static_cast<size_t>(ValueOf(SpokenWord(result, i), &AlignedWord::num_phones));
}

size_t antiphon_result_num_hypotheses(const antiphon_result* result) {
  return result == nullptr ? 0 : result->recognition.nbest.size();
}
const char* antiphon_result_hypothesis_text(const antiphon_result* result, size_t i) {
  return TextOf(HypothesisOf(result, i), &Hypothesis::text);
}
double antiphon_result_hypothesis_cost(const antiphon_result* result, size_t i) {
  return ValueOf(HypothesisOf(result, i), &Hypothesis::cost);
}

void antiphon_result_cancel(antiphon_result* result) {
  if (result != nullptr) result->call.cancel.Cancel();
}
void antiphon_result_free(antiphon_result** result) { Free(result); }

}  // extern "C"
#pragma GCC visibility pop
}  // namespace antiphon::c
