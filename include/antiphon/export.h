// The mark of what libantiphon.so shows; all else of it is compiled hidden.
#pragma once

#define ANTIPHON_API [[gnu::visibility("default")]]
