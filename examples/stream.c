/* Words of speech that is still being said, by the C interface: 16-bit samples on standard input, a line on standard
 * output for each utterance that ended.
 *
 *   arecord -q -t raw -f S16_LE -c 1 -r 16000 | ./stream exp/mine/network/model.safetensors exp/mine/graph 16000
 */
#include <antiphon.h>
#include <stdio.h>
#include <stdlib.h>

/* What is understood so far goes to standard error, results to standard output. */
static void print_events(const antiphon_stream* stream) {
  size_t i;
  for (i = 0; i < antiphon_stream_num_events(stream); ++i) {
    if (antiphon_stream_event_final(stream, i)) {
      puts(antiphon_stream_event_json(stream, i));
    } else {
      fprintf(stderr, "... %s\n", antiphon_stream_event_text(stream, i));
    }
  }
  fflush(stdout);
}

/* Returns the exit status. */
static int listen_to_stdin(antiphon_stream* stream) {
  int16_t samples[1600];
  size_t count;
  while ((count = fread(samples, sizeof samples[0], sizeof samples / sizeof samples[0], stdin)) > 0) {
    if (antiphon_stream_accept_int16(stream, samples, count) != ANTIPHON_OK) break;
    print_events(stream);
  }
  if (antiphon_stream_status(stream) == ANTIPHON_OK && antiphon_stream_end(stream) == ANTIPHON_OK) {
    print_events(stream);
    return 0;
  }
  fprintf(stderr, "%s\n", antiphon_stream_error(stream));
  return 1;
}

int main(int argc, char** argv) {
  antiphon_settings* settings = antiphon_settings_new();
  antiphon_recognizer* recognizer;
  antiphon_stream* stream;
  int status;
  if (argc != 4) {
    fprintf(stderr, "usage: stream MODEL GRAPH RATE < SAMPLES    (antiphon %s)\n", antiphon_version());
    antiphon_settings_free(&settings);
    return 2;
  }
  antiphon_settings_set(settings, "nbest", "3");
  recognizer = antiphon_recognizer_new(argv[1], argv[2], settings);
  antiphon_settings_free(&settings);
  /* A recognizer that is not good makes a stream that says why. */
  stream = antiphon_stream_new(recognizer, atoi(argv[3]), NULL);
  antiphon_recognizer_free(&recognizer); /* the stream keeps what it needs */
  status = listen_to_stdin(stream);
  antiphon_stream_free(&stream);
  return status;
}
