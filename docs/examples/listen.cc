// Words of speech that is still being said, through the public headers alone: 16-bit samples on standard input.
//
//   arecord -q -t raw -f S16_LE -c 1 -r 16000 | example_listen exp/mine/network/model.safetensors exp/mine/graph 16000
#include <antiphon/error.h>
#include <antiphon/recognizer.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

namespace {

void Print(const std::vector<antiphon::StreamEvent>& events) {
  for (const antiphon::StreamEvent& event : events) {
    if (!event.final) continue;
    std::cout << event.start_s << " – " << event.end_s << " s  " << event.text << "\n";
    for (const antiphon::RecognizedWord& word : event.words)
      std::cout << "  " << word.start_s << " s  " << word.word << "  (" << word.confidence << ")\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: example_listen MODEL GRAPH RATE < SAMPLES\n";
    return 2;
  }
  try {
    const antiphon::Recognizer recognizer(argv[1], argv[2], {.hotwords = {{"TWO", 1.0}}});
    antiphon::Stream stream = recognizer.NewStream(std::stoi(argv[3]), {.endpoint_silence_s = 0.7});
    std::vector<int16_t> piece(1600);
    while (const size_t count = std::fread(piece.data(), sizeof(int16_t), piece.size(), stdin)) {
      Print(stream.Accept(std::span(piece).first(count)));
    }
    Print(stream.End());
    for (const std::string& remark : stream.AudioRemarks()) std::cerr << remark << "\n";
    return 0;
  } catch (const std::exception& e) {
    std::cerr << antiphon::NameOf(antiphon::KindOf(e)) << ": " << e.what() << "\n";
    return 1;
  }
}
