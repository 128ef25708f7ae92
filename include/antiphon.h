// The C interface: speech in, words out; streams; alignment of known text.
//
//   antiphon_recognizer* recognizer = antiphon_recognizer_new("mine.antiphon", NULL, NULL);
//   antiphon_result* result = antiphon_result_new();
//   if (antiphon_recognize_file(recognizer, "call.wav", -1, result) == ANTIPHON_OK) puts(antiphon_result_text(result));
//   else fputs(antiphon_result_error(result), stderr);
//   antiphon_result_free(&result);
//   antiphon_recognizer_free(&recognizer);
//
// Handles. What a _new makes, its _free takes: it sets the pointer to NULL, so that a handle that is gone is a null
// handle, and takes null handles and null pointers, too. A null handle anywhere else is an error of the kind
// ANTIPHON_ERROR_USAGE, never a crash. A _new returns NULL if memory ran out; else a handle, whose _status says whether
// it is good and whose _error says why not: in English, from what was asked for down to the cause. A handle that could
// not be made good can only be asked for these, and freed. Handles may be freed in any order.
//
// Text is UTF-8 and ends with a zero. What a function returns belongs to the handle that it was asked of, and holds
// until the next call that changes the handle; no function returns a null text.
//
// Units: samples of one channel in -1 ... 1, or 16-bit; seconds from the beginning of the audio; confidences 0 ... 1;
// costs in nats, lower is better. Channels, words, phones, hypotheses and events count from 0; beyond the last one,
// functions give "" and 0.
// Threads: a recognizer or an aligner may be used by many threads at once, each with a result of its own; of other
// handles, one call at a time, a _cancel aside. There is no global state but the log's callback. Errors: statuses;
// nothing is thrown, printed or ended.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming, modernize-use-using): names as C has them. */

typedef enum antiphon_status {
  ANTIPHON_OK = 0,
  ANTIPHON_ERROR_USAGE = 1,     /* a call or a setting that cannot be */
  ANTIPHON_ERROR_INPUT = 2,     /* a file or samples: damaged, or not what fits */
  ANTIPHON_ERROR_IO = 3,        /* the operating system refused */
  ANTIPHON_ERROR_CANCELLED = 4, /* somebody asked to stop */
  ANTIPHON_ERROR_MEMORY = 5,    /* out of memory */
  ANTIPHON_ERROR_INTERNAL = 6   /* a bug in Antiphon, or a device that failed */
} antiphon_status;

typedef struct antiphon_settings antiphon_settings;
typedef struct antiphon_recognizer antiphon_recognizer;
typedef struct antiphon_speaker antiphon_speaker;
typedef struct antiphon_stream antiphon_stream;
typedef struct antiphon_aligner antiphon_aligner;
typedef struct antiphon_result antiphon_result;

/* Of the library: "0.1.0". */
const char* antiphon_version(void);

typedef enum antiphon_log_level {
  ANTIPHON_LOG_DEBUG = 0,
  ANTIPHON_LOG_INFO = 1,
  ANTIPHON_LOG_WARNING = 2
} antiphon_log_level;
/* One line in UTF-8, for the time of the call. Called from any thread, one call at a time; may not call the library. */
typedef void (*antiphon_log_callback)(antiphon_log_level level, const char* message, void* user_data);
/* Of the whole process: what the library says on its way, from `least` on (words that a graph lacks, utterances that
 * are left out). NULL, as at the beginning: nothing. The one that was there before is not called any more. */
antiphon_status antiphon_set_log_callback(antiphon_log_callback callback, void* user_data, antiphon_log_level least);

/* ---- Settings: options of a recognizer, a stream or an aligner, which are checked when one is made of them. */

antiphon_settings* antiphon_settings_new(void);
/* An option by the name that the program has for it: of `antiphon decode` for a recognizer ("beam", "nbest",
 * "nnet.precision", "hotwords", "word-list", "weights", "written" ...), of `antiphon listen` for a stream ("partial",
 * "endpoint-silence", "max-utterance" ...), of `antiphon align` for an aligner. Recognizers and aligners also take
 * "threads", streams "nbest" and "profile" and "memory", files of who speaks. Text is taken as it stands, without
 * quotes; numbers, true and false, and lists are written as in TOML. */
antiphon_status antiphon_settings_set(antiphon_settings* settings, const char* option, const char* value);
/* Of a recognizer or of one stream. A phrase that is preferred: nats by which each of its words gets cheaper, -100 ...
 * 100; usual is 4. */
antiphon_status antiphon_settings_prefer(antiphon_settings* settings, const char* phrase, double bonus);
/* Of a recognizer or of one stream. A word, or a phrase of several, that may be recognised; after the first such call
 * all others may not, unless "[unk]" is allowed, as which they are shown. */
antiphon_status antiphon_settings_allow(antiphon_settings* settings, const char* word);
/* Of a recognizer whose graph was made with --on-the-fly. A word that the graph lacks; phones: with blanks between,
 * NULL or "" for those of the lexicon or what the option "g2p" says; weight: how many times as probable as usual, above
 * 0. */
antiphon_status antiphon_settings_add_word(antiphon_settings* settings, const char* word, const char* phones,
                                           double weight);
const char* antiphon_settings_error(const antiphon_settings* settings);
void antiphon_settings_free(antiphon_settings** settings);

/* ---- Results: what was recognised or aligned. One may be used for many calls, each of which replaces it. */

antiphon_result* antiphon_result_new(void);
/* What recognitions with this result are about, from now on: how many hypotheses they give, 0 ... 1000, -1 for the
 * recognizer's setting; who speaks, NULL if that is not known; a function that they call from time to time with the
 * seconds that are done, in the thread of the call. Alignments know none of this. */
antiphon_status antiphon_result_set_nbest(antiphon_result* result, int nbest);
antiphon_status antiphon_result_set_speaker(antiphon_result* result, const antiphon_speaker* speaker);
typedef void (*antiphon_progress_callback)(double done_seconds, void* user_data);
antiphon_status antiphon_result_set_progress(antiphon_result* result, antiphon_progress_callback callback,
                                             void* user_data);
antiphon_status antiphon_result_status(const antiphon_result* result);
const char* antiphon_result_error(const antiphon_result* result);
/* The words with blanks between. */
const char* antiphon_result_text(const antiphon_result* result);
/* All of it, as ToJson in antiphon/recognition.h or antiphon/aligner.h describes it; "" after an error. */
const char* antiphon_result_json(const antiphon_result* result);
/* As people write it, if the option "written" asks for that; else "". */
const char* antiphon_result_written(const antiphon_result* result);
/* Why there are no words, for example; usually "". */
const char* antiphon_result_remark(const antiphon_result* result);
/* What is wrong with the sound of a recording, in sentences. */
size_t antiphon_result_num_audio_remarks(const antiphon_result* result);
const char* antiphon_result_audio_remark(const antiphon_result* result, size_t i);
/* Of an alignment, for Praat; else "". */
const char* antiphon_result_textgrid(const antiphon_result* result);
size_t antiphon_result_num_words(const antiphon_result* result);
/* Word i. The confidence is -1 where it is not known. */
const char* antiphon_result_word(const antiphon_result* result, size_t i);
double antiphon_result_word_start(const antiphon_result* result, size_t i);
double antiphon_result_word_end(const antiphon_result* result, size_t i);
double antiphon_result_word_confidence(const antiphon_result* result, size_t i);
/* Of an alignment; none otherwise: the phones, without gaps, pauses among them, and which of them word i is. */
size_t antiphon_result_num_phones(const antiphon_result* result);
const char* antiphon_result_phone(const antiphon_result* result, size_t i);
double antiphon_result_phone_start(const antiphon_result* result, size_t i);
double antiphon_result_phone_end(const antiphon_result* result, size_t i);
size_t antiphon_result_word_first_phone(const antiphon_result* result, size_t i);
size_t antiphon_result_word_num_phones(const antiphon_result* result, size_t i);
/* The n best, best first, with different words; none unless they were asked for. */
size_t antiphon_result_num_hypotheses(const antiphon_result* result);
const char* antiphon_result_hypothesis_text(const antiphon_result* result, size_t i);
double antiphon_result_hypothesis_cost(const antiphon_result* result, size_t i);
/* From any thread: the call that is under way with this result ends soon with ANTIPHON_ERROR_CANCELLED, and so does any
 * later one. */
void antiphon_result_cancel(antiphon_result* result);
void antiphon_result_free(antiphon_result** result);

/* ---- Recognizers. */

/* model: a model file, and graph the folder that antiphon graph made for it; or what antiphon bundle made, or the
 * folder of a recipe, which have a graph of their own, and graph NULL or "". settings may be NULL. */
antiphon_recognizer* antiphon_recognizer_new(const char* model, const char* graph, const antiphon_settings* settings);
antiphon_status antiphon_recognizer_status(const antiphon_recognizer* recognizer);
const char* antiphon_recognizer_error(const antiphon_recognizer* recognizer);
/* Of the model; 0 if it is not good. Audio at other rates is converted. */
int antiphon_recognizer_sample_rate(const antiphon_recognizer* recognizer);
/* The words that it can recognise, a list of allowed ones aside. */
size_t antiphon_recognizer_num_words(const antiphon_recognizer* recognizer);
const char* antiphon_recognizer_word(const antiphon_recognizer* recognizer, size_t i);
/* 1: the model is of a kind to which a speaker's memory means something, if only in streams. */
int antiphon_recognizer_uses_memory(const antiphon_recognizer* recognizer);
void antiphon_recognizer_free(antiphon_recognizer** recognizer);

/* samples may be NULL if num_samples is 0. The status is also the result's. */
antiphon_status antiphon_recognize(const antiphon_recognizer* recognizer, const float* samples, size_t num_samples,
                                   int sample_rate_hz, antiphon_result* result);
antiphon_status antiphon_recognize_int16(const antiphon_recognizer* recognizer, const int16_t* samples,
                                         size_t num_samples, int sample_rate_hz, antiphon_result* result);
/* channel: from 0; -1: the mean of all. */
antiphon_status antiphon_recognize_file(const antiphon_recognizer* recognizer, const char* path, int channel,
                                        antiphon_result* result);
/* A whole file's bytes in memory; name stands for the file, in dither and errors. */
antiphon_status antiphon_recognize_bytes(const antiphon_recognizer* recognizer, const void* bytes, size_t num_bytes,
                                         int channel, const char* name, antiphon_result* result);

/* ---- Speakers: what is known of who speaks, for antiphon_result_set_speaker. */

/* profile: a file that `antiphon adapt` made for this model; memory: one that a _save_memory wrote; NULL or "": none.
 * Each call with it adds to the memory what it heard, so that one call at a time may use it. It serves this recognizer,
 * may be freed when a result has it, and streams take the files by their settings. */
antiphon_speaker* antiphon_speaker_new(const antiphon_recognizer* recognizer, const char* profile, const char* memory);
antiphon_status antiphon_speaker_status(const antiphon_speaker* speaker);
const char* antiphon_speaker_error(const antiphon_speaker* speaker);
antiphon_status antiphon_speaker_save_memory(antiphon_speaker* speaker, const char* file);
void antiphon_speaker_free(antiphon_speaker** speaker);

/* ---- Streams: speech that is still being said. */

/* settings may be NULL. The stream keeps what it needs of the recognizer. */
antiphon_stream* antiphon_stream_new(const antiphon_recognizer* recognizer, int sample_rate_hz,
                                     const antiphon_settings* settings);
/* Of the last call on this stream. */
antiphon_status antiphon_stream_status(const antiphon_stream* stream);
const char* antiphon_stream_error(const antiphon_stream* stream);
/* More samples, any number. Samples that are not finite are refused, and the stream goes on; after any other error it
 * is over. What became clear is in the events, which the next call replaces. */
antiphon_status antiphon_stream_accept(antiphon_stream* stream, const float* samples, size_t num_samples);
antiphon_status antiphon_stream_accept_int16(antiphon_stream* stream, const int16_t* samples, size_t num_samples);
/* No more samples will come. */
antiphon_status antiphon_stream_end(antiphon_stream* stream);
/* 1: it takes no more samples, after antiphon_stream_end or an error. */
int antiphon_stream_ended(const antiphon_stream* stream);
size_t antiphon_stream_num_events(const antiphon_stream* stream);
const char* antiphon_stream_event_text(const antiphon_stream* stream, size_t i);
/* 1: the utterance is over, and this is its result. 0: so far. */
int antiphon_stream_event_final(const antiphon_stream* stream, size_t i);
/* Of the utterance, from the stream's beginning; its end so far. */
double antiphon_stream_event_start(const antiphon_stream* stream, size_t i);
double antiphon_stream_event_end(const antiphon_stream* stream, size_t i);
/* All of event i as a result: its words, with their times so far if it is not final, what is written, hypotheses. */
antiphon_status antiphon_stream_event_result(const antiphon_stream* stream, size_t i, antiphon_result* result);
/* As ToJson in antiphon/stream.h describes it. */
const char* antiphon_stream_event_json(const antiphon_stream* stream, size_t i);
/* What is wrong with the sound so far, in sentences: a narrower band than the model's, silence, clipping. */
size_t antiphon_stream_num_audio_remarks(antiphon_stream* stream);
const char* antiphon_stream_audio_remark(const antiphon_stream* stream, size_t i);
/* What is known of the speaker, for the setting "memory" of a later stream; after antiphon_stream_end. */
antiphon_status antiphon_stream_save_memory(antiphon_stream* stream, const char* file);
/* From any thread: the call that is under way ends soon with ANTIPHON_ERROR_CANCELLED; the stream is over. */
void antiphon_stream_cancel(antiphon_stream* stream);
void antiphon_stream_free(antiphon_stream** stream);

/* ---- Aligners: where each word of known text was said. */

/* lexicon: WORD PHONE ... per line; NULL or "" for what antiphon bundle made, and for the folder of a recipe, which
 * have their own. settings may be NULL. */
antiphon_aligner* antiphon_aligner_new(const char* model, const char* lexicon, const antiphon_settings* settings);
antiphon_status antiphon_aligner_status(const antiphon_aligner* aligner);
const char* antiphon_aligner_error(const antiphon_aligner* aligner);
antiphon_status antiphon_align(const antiphon_aligner* aligner, const float* samples, size_t num_samples,
                               int sample_rate_hz, const char* text, antiphon_result* result);
antiphon_status antiphon_align_file(const antiphon_aligner* aligner, const char* path, int channel, const char* text,
                                    antiphon_result* result);
void antiphon_aligner_free(antiphon_aligner** aligner);

/* NOLINTEND(readability-identifier-naming, modernize-use-using) */

#ifdef __cplusplus
}
#endif
