// Rules of how spoken words are written, from a readable source to a transducer.
//
//   # numbers from 21 to 29
//   unit    = "one":"1" | "two":"2" | "nine":"9"
//   twenty  = "twenty ":"2" unit
//   written = twenty | twenty (" percent":"%")
//
// A definition begins at the left margin; lines that go on with it are indented. Definitions name earlier ones. `|` is
// "or" and binds less than standing side by side; "spoken":"written" is spoken as the one and written as the other,
// "text" alone as it stands; ( ) groups; `?`, `*` and `+` behind an item are none or once, any number, at least once;
// <2.5> is a cost, of which the lower is preferred. \" and \\ stand for " and \. `written` is what is built: it takes
// words with one blank between them, in small letters.
//
// The transducer reads and writes bytes of UTF-8, as pynini and Thrax write them, so that grammars of others serve as
// well. Threads: pure function. Errors: InputError naming source and line.
#pragma once

#include <fst/fst-decl.h>

#include <string>
#include <string_view>

namespace antiphon::written {

/// Overwrites `rules`. `source` stands for the file in errors.
void BuildRules(std::string_view text, const std::string& source, fst::StdVectorFst* rules);

}  // namespace antiphon::written
