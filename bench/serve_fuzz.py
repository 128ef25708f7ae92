#!/usr/bin/env python3
"""Requests and WebSocket frames with random faults in them, thousands of them, at a running server.

Each is a valid one in which some bytes were exchanged, left out, doubled or cut off. Afterwards, and now and then in
between, the server has to answer /health and to give a good client the words that it gave before. Needs the Python
package websockets.

  antiphon serve mine.antiphon --limits.idle 2 &
  bench/serve_fuzz.py --count 10000 recording.wav
"""

import argparse
import json
import os
import random
import socket
import struct
import wave

import websockets.sync.client

HANDSHAKE = (b"GET /?model=&token=x HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")


def frame(code, payload, final=True):
    """A client's frame, masked with zeros."""
    head = bytes([(0x80 if final else 0) | code])
    if len(payload) < 126:
        head += bytes([0x80 | len(payload)])
    else:
        head += bytes([0xFE]) + struct.pack(">H", len(payload))
    return head + bytes(4) + payload


def form(sound):
    body = (b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nx\r\n'
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + sound + b"\r\n--b--\r\n")
    return (b"Host: localhost\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def templates(sound):
    config = b'{"config": {"sample_rate": 8000, "words": 1, "max_alternatives": 2, "phrase_list": ["A b", "[unk]"]}}'
    frames = [frame(1, config), frame(2, sound[44:3000]), frame(2, sound[44:100], False), frame(0, b"\0\1"),
              frame(9, b"ping"), frame(1, b'{"reset" : 1}'), frame(2, sound[44:500]), frame(1, b'{"eof" : 1}'),
              frame(8, struct.pack(">H", 1000))]
    return {"frames": HANDSHAKE + b"".join(frames), "handshake": HANDSHAKE,
            "transcription": b"POST /v1/audio/transcriptions HTTP/1.1\r\n" + form(sound[:2000]),
            "inference": b"POST /inference HTTP/1.1\r\n" + form(sound[:2000]),
            "chunked": b"POST /inference HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: "
                       b"multipart/form-data; boundary=b\r\n\r\n5\r\n--b\r\n\r\n0\r\n\r\n",
            "get": b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nConnection: close\r\n\r\n"}


def damaged(data, random_):
    data = bytearray(data)
    for _ in range(random_.choice([1, 1, 2, 4, 16])):
        at = random_.randrange(len(data) or 1)
        kind = random_.randrange(5)
        if kind == 0:
            data[at:at + 1] = bytes([random_.randrange(256)])
        elif kind == 1:
            del data[at:at + random_.randrange(1, 50)]
        elif kind == 2:
            data[at:at] = data[at:at + random_.randrange(1, 200)]
        elif kind == 3:
            data[at:at] = random_.choice([b"\r\n", b"\0", b"9" * 30, b"\xff" * 8, b'"', b"--b", b"%s", b"{" * 50])
        else:
            del data[at:]
    return bytes(data)


def send(options, data, random_):
    with socket.create_connection((options.host, options.port), timeout=20) as client:
        try:
            for piece in ([data] if random_.random() < 0.7 else [data[:len(data) // 2], data[len(data) // 2:]]):
                client.sendall(piece)
            if random_.random() < 0.9:
                client.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass
        except OSError:
            pass


def hear(options, rate, raw):
    words = []
    with websockets.sync.client.connect(f"ws://{options.host}:{options.port}/", compression=None, proxy=None) as good:
        good.send(json.dumps({"config": {"sample_rate": rate}}))
        for at in range(0, len(raw), 8000):
            good.send(raw[at:at + 8000])
            words += json.loads(good.recv(timeout=60)).get("result", [])
        good.send('{"eof" : 1}')
        return words + json.loads(good.recv(timeout=60)).get("result", [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=2700)
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("wav")
    options = parser.parse_args()
    with wave.open(options.wav) as file:
        rate, raw = file.getframerate(), file.readframes(file.getnframes())
    with open(options.wav, "rb") as file:
        kinds = list(templates(file.read()).items())
    random_ = random.Random(options.seed)
    expected = hear(options, rate, raw)
    for number in range(options.count):
        name, data = kinds[number % len(kinds)]
        send(options, damaged(data, random_), random_)
        if (number + 1) % 1000 == 0 or number + 1 == options.count:
            if hear(options, rate, raw) != expected:
                raise SystemExit(f"after {number + 1}: other words than before (process {os.getpid()})")
            print(f"{number + 1} sent; a good client hears what it heard before", flush=True)


if __name__ == "__main__":
    main()
