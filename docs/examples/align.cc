// Where each word of known text was said, as a TextGrid for Praat, through the public headers alone.
//
//   example_align exp/mine/network/model.safetensors lang/lexicon.txt x.wav "the cat sat" > x.TextGrid
#include <antiphon/aligner.h>
#include <antiphon/error.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: example_align MODEL LEXICON AUDIO TEXT\n";
    return 2;
  }
  try {
    const antiphon::AlignedSpeech speech = antiphon::Aligner(argv[1], argv[2]).AlignFile(argv[3], argv[4]);
    std::cout << antiphon::ToTextGrid(speech);
    std::cerr << antiphon::ToCtm(speech, "x");
    return 0;
  } catch (const std::exception& e) {
    std::cerr << antiphon::NameOf(antiphon::KindOf(e)) << ": " << e.what() << "\n";
    return 1;
  }
}
