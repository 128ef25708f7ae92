#!/usr/bin/env python3
"""Clients that misbehave, for as long as you like, beside some that do not: does the server stay as it was?

At a time: speakers (bench/serve_load.py) whose words must stay the same; and clients that vanish in the middle, stall
with what they should read, send garbage over HTTP and WebSocket, flood with tiny messages, and send recordings whole,
cut short or made of noise. Printed every --every seconds and at the end: memory that the server says it holds, open
streams, how many clients of each kind there were, and whether any good one was lost. Needs the Python package websockets.

  antiphon serve mine.antiphon --limits.idle 10 &
  bench/serve_soak.py --seconds 3600 recordings/*.wav
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random
import time
import urllib.request

import serve_load
import websockets.exceptions

ERRORS = (OSError, EOFError, websockets.exceptions.WebSocketException, asyncio.TimeoutError)


class Soak(serve_load.Load):
    def __init__(self, options):
        super().__init__(options)
        self.random = random.Random(options.seed)
        self.counts = collections.Counter()
        host, _, port = options.url.partition("://")[2].rstrip("/").rpartition(":")
        self.host, self.port = host, int(port)

    async def raw_connection(self, data, read=True):
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(data)
            await writer.drain()
            if read:
                await asyncio.wait_for(reader.read(1 << 16), 15)
        finally:
            writer.close()

    async def vanish(self):
        path, rate, raw = self.random.choice(self.sounds)
        connection = await serve_load.connect(self.options.url)
        await connection.send(json.dumps({"config": {"sample_rate": rate}}))
        for at in range(0, self.random.randrange(len(raw)), 4000):
            await connection.send(raw[at:at + 4000])
        connection.transport.abort()

    async def stall(self):
        """Sends speech and takes no answer."""
        path, rate, raw = self.random.choice(self.sounds)
        request = ("GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n").encode()
        frame = b"\x82\xfe" + (3200).to_bytes(2, "big") + b"\0\0\0\0" + raw[:3200].ljust(3200, b"\0")
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1)
        try:
            writer.write(request + frame * self.random.randrange(1, 200))
            with contextlib.suppress(*ERRORS):
                await asyncio.wait_for(writer.drain(), 20)
            await asyncio.sleep(self.random.uniform(1, 40))
        finally:
            writer.transport.abort()

    async def garbage(self):
        noise = self.random.randbytes(self.random.randrange(1, 20000))
        starts = [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                  b"POST /inference HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\nContent-Type: "
                  b"multipart/form-data; boundary=b\r\n\r\n--b\r\nContent-Disposition: form-data; name=file\r\n\r\n"]
        await self.raw_connection(self.random.choice(starts) + noise)

    async def flood(self):
        async with serve_load.connect(self.options.url) as connection:
            for _ in range(self.random.randrange(100, 3000)):
                await connection.send(self.random.choice([b"", b"\0", b"\1\0", '{"config":{}}']))
            await connection.send('{"eof" : 1}')
            async for _ in connection:
                pass

    async def upload(self):
        path, rate, raw = self.random.choice(self.sounds)
        with open(path, "rb") as file:
            whole = file.read()
        kind = self.random.randrange(3)
        body = [whole, whole[:self.random.randrange(len(whole))], self.random.randbytes(20000)][kind]
        data = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' + body + b"\r\n--b--\r\n")
        head = (f"POST /inference HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n"
                "Content-Type: multipart/form-data; boundary=b\r\n\r\n").encode()
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(head + data)
            answer = await asyncio.wait_for(reader.read(), 120)
            self.counts["upload " + answer[9:12].decode("ascii", "replace")] += 1
        finally:
            writer.close()

    async def misbehave(self, kind, until):
        while time.monotonic() < until:
            self.counts[kind.__name__] += 1
            try:
                await asyncio.wait_for(kind(), 180)
            except ERRORS:
                pass
            await asyncio.sleep(self.random.uniform(0.05, 1.0))

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics", timeout=20) as answer:
            lines = [line.split() for line in answer.read().decode().splitlines() if not line.startswith("#")]
        values = {line[0]: float(line[-1]) for line in lines}
        return values["process_resident_memory_bytes"] / 2**20, values.get("antiphon_streams", 0)

    async def watch(self, until):
        start = time.monotonic()
        while time.monotonic() < until:
            await asyncio.sleep(self.options.every)
            memory, streams = await asyncio.to_thread(self.metrics)
            print(f"{time.monotonic() - start:.0f} s: {memory:.1f} MiB, {streams:.0f} streams, {self.recordings} recordings, "
                  f"{self.lost} lost, {self.different} different, {dict(self.counts)}", flush=True)

    async def run(self):
        until = time.monotonic() + self.options.seconds
        kinds = [self.vanish, self.stall, self.garbage, self.flood, self.upload]
        await asyncio.gather(*(self.speaker(number, until) for number in range(self.options.streams)),
                             *(self.misbehave(kind, until) for kind in kinds for _ in range(self.options.each)),
                             self.watch(until))
        memory, streams = self.metrics()
        print(f"end: {memory:.1f} MiB, {streams:.0f} streams, {dict(self.counts)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="ws://127.0.0.1:2700")
    parser.add_argument("--streams", type=int, default=5)
    parser.add_argument("--each", type=int, default=2, help="clients of each misbehaving kind at a time")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--every", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    serve_load.add_options(parser)
    soak = Soak(parser.parse_args())
    asyncio.run(soak.run())
    soak.report()


if __name__ == "__main__":
    main()
