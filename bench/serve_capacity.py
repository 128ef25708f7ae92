#!/usr/bin/env python3
"""How many live streams one core carries: a server of Vosk's protocol, pinned to a core, gets more and more of them.

Each number of streams is held for --seconds by the clients of bench/serve_load.py. It is carried if 95 % of the last
results come within --mark seconds of the end of speech, and no stream is lost. The number is doubled until it is not
carried, and the largest one found by halving. One line of JSON per try; the last one names the largest. Needs the
Python package websockets, and taskset.

  bench/serve_capacity.py --core 1 --url ws://127.0.0.1:2700 \\
    --command 'antiphon serve mine.antiphon --threads 1 --limits.streams 1000' recordings/*.wav
"""

import argparse
import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.parse

import serve_load


class Server:
    def __init__(self, options):
        self.address = (urllib.parse.urlsplit(options.url).hostname, urllib.parse.urlsplit(options.url).port)
        self.process = subprocess.Popen(["taskset", "-c", str(options.core), *shlex.split(options.command)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 300
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"no server: {options.command}")
            time.sleep(0.2)

    def listens(self):
        try:
            socket.create_connection(self.address, timeout=5).close()
            return True
        except OSError:
            return False

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def carries(server, options, streams):
    load = serve_load.Load(argparse.Namespace(**{**vars(options), "streams": streams}))
    before = server.cpu_seconds()
    asyncio.run(load.run())
    final = sorted(load.finals)
    p95 = serve_load.percentile(final, 0.95)
    carried = bool(final) and p95 <= options.mark and load.lost == 0
    print(json.dumps({"streams": streams, "carried": carried, "recordings": load.recordings, "lost": load.lost,
                      "different": load.different, "final_p50_s": round(serve_load.percentile(final, 0.5), 3),
                      "final_p95_s": round(p95, 3), "audio_s": round(load.audio_s, 1),
                      "cpu_per_audio": round((server.cpu_seconds() - before) / max(load.audio_s, 1e-9), 4),
                      "server_mb": round(server.megabytes())}), flush=True)
    return carried


def largest(server, options):
    low, high = 0, max(1, options.start)
    while carries(server, options, high):
        low, high = high, 2 * high
    # To a tenth: what is measured varies by as much.
    while high - low > max(1, low // 10):
        middle = (low + high) // 2
        low, high = (middle, high) if carries(server, options, middle) else (low, middle)
    return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="that starts the server")
    parser.add_argument("--url", default="ws://127.0.0.1:2700")
    parser.add_argument("--core", type=int, default=0, help="that the server gets")
    parser.add_argument("--mark", type=float, default=1.0,
                        help="seconds from the end of speech to the last result, 95 %%")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--start", type=int, default=4, help="number of streams to begin with")
    serve_load.add_options(parser)
    options = parser.parse_args()
    options.probe = False
    cores = os.sched_getaffinity(0)
    if len(cores) > 1:
        os.sched_setaffinity(0, cores - {options.core})
    server = Server(options)
    try:
        print(json.dumps({"largest": largest(server, options), "mark_s": options.mark}))
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
