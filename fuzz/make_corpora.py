"""Makes the seed corpora: small valid files of every kind that a fuzz target reads, and some that are just wrong.

Usage: make_corpora.py FOLDER. Needs the standard library only.
"""

import gzip
import io
import json
import pathlib
import struct
import sys
import wave


def config():
    yield b'title = "demo"\nseed = 7\n\n[options]\ncount = 3\nrate = 0.25\nsizes = [1, 2]\n'
    yield b'[[layer]]\ntype = "affine"\ndim = 2048\n\n[[layer]]\ntype = "sigmoid"\n'
    yield b"a.b.c = [1.5e3, inf, nan]\nd = { x = 1, y = 'z' }\ne = 1979-05-27T07:32:00Z\n"
    yield b'[options]\nname = """a\nb"""\nflag = true\nrates = [0.1, 1]\n[a]\nb = "x"\n'


def ark():
    """The first byte chooses the kind: matrices, vectors, integer vectors, a script."""
    def int32(value):
        return b"\x04" + struct.pack("<i", value)

    floats = struct.pack("<6f", 1, -2.5, 3, 0, 1e-3, 7)
    matrix = b"\0BFM " + int32(2) + int32(3) + floats
    yield b"\0utt1 " + matrix + b"utt2 " + matrix
    yield b"\0utt1 \0BDM " + int32(1) + int32(2) + struct.pack("<2d", 0.5, 2)
    yield b"\0utt1  [\n  1 2 3\n  4 -5e-1 6 ]\nutt2  [ ]\n"
    header = struct.pack("<ffii", -1.0, 2.0, 2, 3)
    yield b"\0utt1 \0BCM " + header + struct.pack("<12H", *range(0, 48000, 4000)) + bytes(range(6))
    yield b"\0utt1 \0BCM2 " + header + struct.pack("<6H", *range(6))
    yield b"\0utt1 \0BCM3 " + header + bytes(range(6))
    yield b"\0" + gzip.compress(b"utt1 " + matrix, mtime=0)
    yield b"\1utt1 \0BFV " + int32(6) + floats + b"utt2 \0BDV " + int32(1) + struct.pack("<d", 3)
    yield b"\1utt1  [ 1 2 nan ]\n"
    yield b"\2utt1 \0B" + int32(3) + int32(5) + int32(6) + int32(7)
    yield b"\2utt1 5 6 7\nutt2 \n"
    yield b"\3utt1 x.ark:5\nutt2 x.ark:5[0:1]\nutt3 x.ark\n"
    # Sizes that lie.
    yield b"\0utt1 \0BFM " + int32(2**30) + int32(2**30) + floats
    yield b"\2utt1 \0B" + int32(-1)


def safetensors():
    def file(header, payload):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + payload

    floats = struct.pack("<6f", *range(6))
    yield file({"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}, floats)
    yield file({"__metadata__": {"model": "{}"}, "b": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
                "c": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [8, 12]},
                "d": {"dtype": "F16", "shape": [], "data_offsets": [12, 14]}}, b"\1\0\0\0" * 3 + b"\0\x3c")
    yield file({"a": {"dtype": "F64", "shape": [0, 3], "data_offsets": [0, 0]}}, b"")
    # Sizes that lie.
    yield file({"a": {"dtype": "F32", "shape": [2**31, 2**31], "data_offsets": [0, 24]}}, floats)
    yield struct.pack("<Q", 2**63) + b"{}"


def model():
    # The last two lie about sizes.
    for in_dim, context, wide in (("3", "1", 2), ("3", "2", 2), ("2000000000", "1", 2), ("3", "1", 2000000000)):
        network = f'[[layer]]\ntype = "affine"\ndim = {wide}\n[[layer]]\ntype = "sigmoid"\n[[layer]]\ntype = "affine"\n'
        metadata = {"format": "antiphon-model", "version": "1", "network": network, "in_dim": in_dim, "out_dim": "2",
                    "features": "kind = 'mfcc'\n", "feature_dim": "1", "left_context": context, "right_context": "1",
                    "hmm": "", "description.seed": "1"}
        tensors, payload = {"__metadata__": metadata}, b""
        shapes = {"affine1.weight": [2, 3], "affine1.bias": [1, 2], "affine2.weight": [2, 2], "affine2.bias": [1, 2],
                  "log_priors": [2]}
        for name, shape in shapes.items():
            size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
            tensors[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(payload), len(payload) + size]}
            payload += struct.pack("<f", -0.7) * (size // 4)
        header = json.dumps(tensors).encode()
        yield struct.pack("<Q", len(header)) + header + payload


def frame_store():
    def text(value):
        return struct.pack("<I", len(value)) + value

    header = {"format": "antiphon-frame-store", "version": 1, "coding": "uint8", "feat_dim": 3, "num_pdfs": 5,
              "num_frames": 4, "num_utterances": 1, "description": "", "shard_bytes": [4096], "index_bytes": 0,
              "index_checksum": ""}
    record = text(b"utt1") + struct.pack("<iifIQQ", 0, 4, 1.0, 0, 64, 7)
    index = b"ANTFIDX1" + struct.pack("<I", 1) + text(b"speaker") + struct.pack("<Q", 1) + record
    yield json.dumps(header).encode() + b"\f\f" + index
    live = header | {"live": {"wav.scp": "0123456789abcdef", "cmvn.ark": ""}}
    yield json.dumps(live).encode() + b"\f\f" + index


def arpa():
    yield (b"\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-1.0\t<s>\t-0.3\n-1.2\t</s>\n-0.5\ta\t-0.1\n"
           b"-99\tb\n\n\\2-grams:\n-0.2\t<s> a\n-0.4\ta </s>\n\n\\end\\\n")
    yield b"\\data\\\nngram 1=1\n\n\\1-grams:\n0 a\n\n\\end\\\n"


def lattice():
    """An odd first byte: a grammar."""
    yield b"\0u1\n0 1 5 1.5,-2,3_4_4\n0 1 0 1,2,\n1 0.5,0,7\n\nu2\n\n"
    yield b"\1# digits\n0 1 A A 0.5\n0 1 A\n1 0 <eps> <eps> Infinity\n1 1.5\n"


def wav():
    for channels, width, rate in ((1, 2, 8000), (2, 2, 16000), (1, 1, 11025), (1, 3, 16000)):
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setnchannels(channels)
            out.setsampwidth(width)
            out.setframerate(rate)
            out.writeframes(bytes(range(96)) * 2)
        yield file.getvalue()
    # Floating point with a NaN; a length that lies; text.
    body = struct.pack("<4f", 0.5, float("nan"), -1, 0)
    fmt = b"fmt " + struct.pack("<IHHIIHH", 16, 3, 1, 16000, 64000, 4, 32)
    yield b"RIFF" + struct.pack("<I", 36 + len(body)) + b"WAVE" + fmt + b"data" + struct.pack("<I", len(body)) + body
    yield b"RIFF" + struct.pack("<I", 2**32 - 1) + b"WAVE" + fmt + b"data" + struct.pack("<I", 2**31) + body
    yield b"this is no sound"
    # MP3s of silence that do not say how long they are: MPEG 1 and 2.5; damaged; with an empty tag.
    for header, size in ((b"\xff\xfb\x90\xc0", 417), (b"\xff\xe3\x20\xc0", 104)):
        frame = header + bytes(size - len(header))
        yield 4 * frame
        yield 2 * frame + b"damage" + 2 * frame
        yield header + bytes(17) + b"Xing" + bytes(size - 25) + 3 * frame


def lexicon():
    """The first byte chooses position-dependent phones."""
    yield b"\0SIL SIL\na AH\na EY\ncat K AE T\n<UNK> SPN\n"
    yield b"\1a 0.5 AH\na 1.0 EY\ncat 0.25 K AE T\n"
    yield "\0größe G R AO S AH\r\n".encode()


def pronunciations():
    yield (b"a 1 0.25 1.5 0.5 AH\na 0.5 0.125 1 1 EY\ncat 1.0 0.5 2 0.75 K AE T\n"
           b"\f<s> 0.75\n</s>_s 1.25\n</s>_n 0.5\noverall 0.25\n")


def data_dir():
    yield (b"r1 a.wav\nr2 b.flac\n\fu1 hello world\nu2 bye\n\fu1 s1\nu2 s2\n\fu1 r1 0.0 1.5\nu2 r2 0.25 2\n"
           b"\fs1 f\ns2 m\n\fu1 1.5\nu2 1.75\n")
    yield b"u1 a.ark:123\nu2 sox x |\n\fu1 one\nu2\n\fu1 s1\nu2 s1\n"


def transcript():
    yield b"u1 hello world\nu2\nu3 gr\xc3\xb6\xc3\x9fe\n"
    yield b";; comment\nu1 1 0.00 0.25 hello 0.9\nu1 1 0.30 0.25 world\n"


def corpus():
    """Layouts by the place of their names in the sorted list."""
    utt = b'{"file_name": "a.wav", "text": "x", "audio_filepath": "a.wav", "offset": 0.5, "duration": 1}\n'
    yield b"\x00" + utt
    yield b"\x01client_id\tpath\tsentence\nann\ta.wav\tone\n"
    yield b'\x02{"utts": {"u": {"input": [{"feat": "a.wav"}], "output": [{"text": "x"}], "utt2spk": "s"}}}'
    yield (b'\x03{"id": "r", "sources": [{"type": "file", "channels": [0, 1], "source": "a.wav"}], "duration": 2,'
           b' "recording_id": "r", "start": 0.5, "channel": 1, "text": "x", "speaker": "s"}\n')
    yield b"\x04a|1 x|one x\nb|y\n"
    yield (b'\x05File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n2\n<exists>\n1\n"IntervalTier"\n"w"\n0\n2\n'
           b'1\n0\n2\n"a ""b"""\n')
    yield b'\x05\xff\xfe"\x00o\x00o\x00'
    yield b"\x06" + utt
    yield b"\x07;; c\na 1 ann 0.0 1.0 <o> one 's {NOISE}\na 2 ann 1.0 2.0 <o> two\n"


def g2p():
    """One letter with two units, bigrams; and a trie that lies."""
    # <s>, </s>, and the units; behind <s> the units, behind them the end.
    tries = (bytes([4, 1, 1, 1, 1, 2, 3, 1, 0, 1, 2, 1, 2]), bytes([4, 1, 1, 1, 1, 255, 255, 255, 255, 15]))
    for trie in tries:
        metadata = {"format": "antiphon-g2p", "version": "1", "order": "2", "letters": '["a"]', "phones": '["A"]',
                    "units": "[[[0],[]],[[0],[0]]]", "description": "{}"}
        tensors, payload = {"__metadata__": metadata}, b""
        for name, dtype, count, data in (("ngram.trie", "U8", len(trie), trie),
                                         ("ngram.log_probs", "F16", 8, b"\0\xbc" * 8),
                                         ("ngram.log_backoffs", "F16", 3, b"\0\xbc" * 3)):
            tensors[name] = {"dtype": dtype, "shape": [count], "data_offsets": [len(payload), len(payload) + len(data)]}
            payload += data
        header = json.dumps(tensors).encode()
        yield struct.pack("<Q", len(header)) + header + payload


def multipart():
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a\\"b.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    yield part + b"RIFF\r\n--b--\r\n"
    yield b"preamble\r\n--b\r\ncontent-disposition: form-data; name=x\r\n\r\n\r\n" + part + b"\r\n--x\r\n--b--"
    yield part + b"cut"
    yield b"--b--"
    yield b'multipart/form-data; charset=utf-8; boundary="a b"'


def vosk_message():
    yield b'{"config" : { "sample_rate" : 16000.0, "words": 1, "max_alternatives": "3", "phrase_list": ["a b", "[unk]"]}}'
    yield b'{"config": {"hotwords": ["a", {"phrase": "b", "bonus": 2.5}], "format": "listen", "model": "en", "profile": "x"}}'
    yield b'{"eof" : 1}'
    yield b'{"reset":true}'
    yield b"model=en&token=%41b+c&profile="
    yield b"a phrase, another; a third\n"


def hmm_model():
    yield b"{}"
    for path in sorted((pathlib.Path(__file__).parent / "seeds" / "hmm_model").glob("*")):
        yield path.read_bytes()


TARGETS = {
    "wav": wav,
    "arpa": arpa,
    "frame_store": frame_store,
    "model": model,
    "data_dir": data_dir,
    "corpus": corpus,
    "g2p": g2p,
    "hmm_model": hmm_model,
    "lattice": lattice,
    "multipart": multipart,
    "vosk_message": vosk_message,
    "lexicon": lexicon,
    "pronunciations": pronunciations,
    "safetensors": safetensors,
    "transcript": transcript,
    "ark": ark,
    "config": config,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, seeds in TARGETS.items():
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (target / f"seed{number:03d}").write_bytes(seed)


if __name__ == "__main__":
    main()
