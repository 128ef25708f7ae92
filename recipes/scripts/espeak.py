"""espeak-ng's shared library by ctypes: speech with the times of its phonemes and words.

The library is a program of its own under the GPL that is called here, as a command would be; nothing links it.
"""
import ctypes
import ctypes.util

PHONEME, WORD = 7, 1
RATE, PITCH, RANGE, WORD_GAP = 1, 3, 4, 7
SYNCHRONOUS, PHONEME_EVENTS, UTF8 = 2, 1, 1


class Event(ctypes.Structure):
    class Id(ctypes.Union):
        _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]

    _fields_ = [("type", ctypes.c_int), ("unique", ctypes.c_uint), ("text_position", ctypes.c_int),
                ("length", ctypes.c_int), ("audio_ms", ctypes.c_int), ("sample", ctypes.c_int),
                ("user_data", ctypes.c_void_p), ("id", Id)]


class Espeak:
    """One synthesiser per process."""

    def __init__(self):
        name = ctypes.util.find_library("espeak-ng") or "libespeak-ng.so.1"
        try:
            self.library = ctypes.CDLL(name)
        except OSError as error:
            raise FileNotFoundError("libespeak-ng is missing; install the Debian package espeak-ng") from error
        self.sample_rate = self.library.espeak_Initialize(SYNCHRONOUS, 0, None, PHONEME_EVENTS)
        callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int,
                                         ctypes.POINTER(Event))
        self._callback = callback_type(self._receive)
        self.library.espeak_SetSynthCallback(self._callback)

    def _receive(self, samples, count, events):
        if samples and count > 0:
            self._samples += ctypes.string_at(samples, 2 * count)
        index = 0
        while events[index].type != 0:
            event = events[index]
            if event.type == PHONEME:
                self._phonemes.append((event.audio_ms, event.id.string.decode("utf-8", "replace"),
                                       event.text_position))
            elif event.type == WORD:
                self._words.append((event.audio_ms, event.text_position))
            index += 1
        return 0

    def speak(self, text, voice="en-us", rate=175, pitch=50, pitch_range=50, word_gap=0):
        """Returns 16-bit samples as bytes, [(start_ms, phoneme, position of its word)], [(start_ms, position of a word)].

        Positions count characters of the text from 1.
        """
        self._samples, self._phonemes, self._words = bytearray(), [], []
        if self.library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice '{voice}'")
        for parameter, value in ((RATE, rate), (PITCH, pitch), (RANGE, pitch_range), (WORD_GAP, word_gap)):
            self.library.espeak_SetParameter(parameter, int(value), 0)
        data = text.encode("utf-8") + b"\0"
        self.library.espeak_Synth(data, len(data), 0, 0, 0, UTF8, None, None)
        return bytes(self._samples), self._phonemes, self._words
