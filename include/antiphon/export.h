// The mark of what libantiphon.so shows; all else of it is compiled hidden. Of no use to programs that link it.
#pragma once

#define ANTIPHON_API [[gnu::visibility("default")]]
