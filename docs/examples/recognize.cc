// Recognises audio files with a model and a graph, through the public headers alone.
//
//   example_recognize exp/mine/network/model.safetensors exp/mine/graph call.wav …
#include <antiphon/recognizer.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: example_recognize MODEL GRAPH AUDIO…\n";
    return 2;
  }
  try {
    const antiphon::Recognizer recognizer(argv[1], argv[2]);
    for (int i = 3; i < argc; ++i) {
      const antiphon::Recognition recognition = recognizer.RecognizeFile(argv[i]);
      std::cout << argv[i] << ": " << recognition.text << "\n";
      for (const antiphon::RecognizedWord& word : recognition.words) {
        std::cout << "  " << word.start_s << " – " << word.end_s << " s  " << word.word << "  (" << word.confidence
                  << ")\n";
      }
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
