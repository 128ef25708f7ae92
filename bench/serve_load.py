#!/usr/bin/env python3
"""Many live speakers at one server: how long each waits for the words after the end of what was said.

Each stream says recordings one after the other, at the speed of speech, in messages of --piece seconds, by Vosk's
protocol, which Vosk's own server speaks too. Measured are the time from the end of a recording, when {"reset" : 1} is
sent, to its last result, and the time from each message to its answer. A recording whose words differ from those that
the first stream heard of it, and a connection that is lost, are counted. With --probe, one more stream than the server takes is tried
every second: how long the refusal takes. Needs the Python package websockets.

  antiphon serve mine.antiphon --limits.streams 50 &
  bench/serve_load.py --streams 50 --seconds 600 --probe recordings/*.wav
"""

import argparse
import asyncio
import collections
import json
import random
import statistics
import time
import wave

import websockets.asyncio.client
import websockets.exceptions


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def connect(url):
    return websockets.asyncio.client.connect(url, compression=None, proxy=None, open_timeout=60, max_queue=None,
                                             ping_interval=None)


class Load:
    def __init__(self, options):
        self.options = options
        self.finals, self.replies, self.refusals = [], [], []
        self.recordings = self.lost = self.different = self.late = 0
        self.audio_s = 0.0
        self.words = {}
        self.config = json.loads(options.client_config)
        self.sounds = []
        for path in options.wav:
            with wave.open(path) as file:
                if file.getnchannels() != 1 or file.getsampwidth() != 2:
                    raise SystemExit(f"{path}: not 16 bits and one channel")
                if self.sounds and file.getframerate() != self.sounds[0][1]:
                    raise SystemExit(f"{path}: {file.getframerate()} Hz, the first one has {self.sounds[0][1]}")
                self.sounds.append((path, file.getframerate(), file.readframes(file.getnframes())))

    async def receive(self, connection, sent, answers):
        """Puts what the server says into `answers`, with the time from what it answers; None at the close."""
        try:
            async for text in connection:
                now = time.monotonic()
                since = sent.popleft() if sent else now
                await answers.put((json.loads(text), now - since))
        except websockets.exceptions.ConnectionClosed:
            pass
        await answers.put(None)

    async def say(self, connection, sent, answers, rate, raw):
        """One recording at the speed of speech; its words."""
        size = int(rate * self.options.piece) * 2
        start = time.monotonic()
        pieces = [raw[at:at + size] for at in range(0, len(raw), size)]
        for number, piece in enumerate(pieces):
            # A piece is there when it has been said.
            wait = start + number * self.options.piece + len(piece) / 2 / rate - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self.late += wait < -0.5
            sent.append(time.monotonic())
            await connection.send(piece)
        sent.append(time.monotonic())
        await connection.send('{"reset" : 1}')
        said = []
        for number in range(len(pieces) + 1):
            answer = await asyncio.wait_for(answers.get(), 120)
            if answer is None:
                raise ConnectionError(f"closed by {connection.close_code} {connection.close_reason}")
            reply, delay = answer
            (self.finals if number == len(pieces) else self.replies).append(delay)
            if reply.get("text"):
                said.append(reply["text"])
        self.audio_s += len(raw) / 2 / rate
        return " ".join(said)

    async def talk(self, random_, until):
        """One connection, as long as it lasts, with one recording after the other."""
        rate = self.sounds[0][1]
        sent, answers = collections.deque(), asyncio.Queue()
        async with connect(self.options.url) as connection:
            await connection.send(json.dumps({"config": {"sample_rate": rate, "words": 1, **self.config}}))
            receiving = asyncio.create_task(self.receive(connection, sent, answers))
            while time.monotonic() < until:
                path, _, raw = random_.choice(self.sounds)
                self.recordings += 1
                words = await self.say(connection, sent, answers, rate, raw)
                if self.words.setdefault(path, words) != words:
                    self.different += 1
                    print(f"different words: {path}: {words!r}, first {self.words[path]!r}", flush=True)
            await connection.send('{"eof" : 1}')
            await asyncio.wait_for(receiving, 120)

    async def speaker(self, number, until):
        random_ = random.Random(number)
        await asyncio.sleep(random_.uniform(0, min(10.0, self.options.seconds / 4)))
        while time.monotonic() < until:
            try:
                await self.talk(random_, until)
            except (OSError, websockets.exceptions.WebSocketException, asyncio.TimeoutError) as error:
                self.lost += 1
                print(f"lost: {error!r}", flush=True)
                await asyncio.sleep(1)

    async def probe(self, until):
        await asyncio.sleep(min(12.0, self.options.seconds / 2))
        while time.monotonic() < until:
            start = time.monotonic()
            try:
                async with connect(self.options.url) as connection:
                    await connection.recv()
            except websockets.exceptions.ConnectionClosed as closed:
                if closed.rcvd and closed.rcvd.code == 1013:
                    self.refusals.append(time.monotonic() - start)
            except (OSError, websockets.exceptions.WebSocketException):
                pass
            await asyncio.sleep(1)

    async def run(self):
        until = time.monotonic() + self.options.seconds
        jobs = [self.speaker(number, until) for number in range(self.options.streams)]
        if self.options.probe:
            jobs.append(self.probe(until))
        await asyncio.gather(*jobs)

    def report(self):
        result = {"streams": self.options.streams, "recordings": self.recordings, "audio_s": round(self.audio_s, 1),
                  "lost": self.lost, "different": self.different, "messages_sent_late": self.late}
        for name, values in (("final", self.finals), ("reply", self.replies), ("refusal", self.refusals)):
            if values:
                result[name] = {"mean_s": round(statistics.mean(values), 4),
                                **{f"p{share}_s": round(percentile(values, share / 100), 4) for share in (50, 95, 99)},
                                "max_s": round(max(values), 4), "count": len(values)}
        print(json.dumps(result, indent=2))


def add_options(parser):
    """Of what a client says."""
    parser.add_argument("--piece", type=float, default=0.1, help="seconds of speech in a message")
    parser.add_argument("--client-config", default="{}", help="further keys of the clients' config, as JSON")
    parser.add_argument("wav", nargs="+", help="recordings: WAV, 16 bits, one channel")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="ws://127.0.0.1:2700")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--probe", action="store_true", help="try one stream too many every second")
    add_options(parser)
    load = Load(parser.parse_args())
    asyncio.run(load.run())
    load.report()


if __name__ == "__main__":
    main()
