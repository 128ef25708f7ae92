// The mark of what belongs to a class that libantiphon.so shows and is not shown itself.
#pragma once

#define ANTIPHON_INTERNAL [[gnu::visibility("hidden")]]
