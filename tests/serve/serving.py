"""A server under test, with the small system that recognises two tones as words.

Needs the Python packages that tests compare with (python/requirements.txt); a test that lacks them is skipped.
"""

import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "program"))
import small_system as system
from small_system import RATE

try:
    import websockets.sync.client as ws
    from websockets.exceptions import ConnectionClosed, InvalidStatus
except ImportError:
    print("skipped: the Python package websockets is missing (scripts/venv)")
    sys.exit(77)

WORDS = ["A", "B", "B", "A", "B"]


def make_call(root):
    """Two utterances with a second of silence between; their samples, also in call.wav."""
    random_ = random.Random(2)
    pause = [int(random_.gauss(0, 40)) for _ in range(RATE)]
    samples = system.speech(WORDS[:2], random_) + pause + system.speech(WORDS[2:], random_)
    (root / "call.wav").write_bytes(system.wav_bytes(samples))
    return struct.pack(f"<{len(samples)}h", *samples)


class Server:
    """antiphon serve in a process of its own, at a free port. `starting` is called with the process before that is
    ready."""

    def __init__(self, root, *more, models=None, environment=None, starting=None):
        models = models or [f"tones={root}/net/model.safetensors"]
        command = [system.PROGRAM, "serve", *models, "--graph", root / "graph", "--port", 0, "--threads", 2,
                   "--set", "nnet.precision=\"fp32\"", *more]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})
        self.log = []
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        if starting:
            starting(self.process)
        line = self.process.stdout.readline()
        if not line.startswith("http://"):
            self.process.wait(timeout=60)
            self.reader.join(timeout=10)
            raise AssertionError(f"no server: {line!r} {self.log}")
        self.port = int(line.split("/")[2].rpartition(":")[2])

    def _read_log(self):
        for line in self.process.stderr:
            self.log.append(line)

    def events(self, name):
        return [event for event in map(json.loads, list(self.log)) if event["event"] == name]

    def url(self, path="/", scheme="http"):
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    def connect(self, path="/", **more):
        # No pings: on a busy machine a server that does not read for a while is not gone.
        return ws.connect(self.url(path, "ws"), open_timeout=60, close_timeout=10, compression=None, proxy=None,
                          ping_interval=None, **more)

    def get(self, path, method="GET", data=None, **headers):
        request = urllib.request.Request(self.url(path), data=data, method=method,
                                         headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), dict(error.headers)

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return 0.0

    def wait_for(self, what, seconds=60):
        """Until what() is true; polls, as nothing outside tells when a server's counters change."""
        done = threading.Event()
        for _ in range(int(seconds / 0.02)):
            if what():
                return True
            done.wait(0.02)
        return False

    def stop(self, signal_=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signal_)
        try:
            status = self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self.process.stdout.close()
        self.reader.join(timeout=10)
        self.process.stderr.close()
        return status


class ServedTest(unittest.TestCase):
    """Cases share one system in `root`; a server is started by each class that names its options."""
    options = ()

    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        system.make_system(cls.root)
        cls.raw = make_call(cls.root)
        cls.prepare()
        cls.server = Server(cls.root, *cls.options)

    @classmethod
    def prepare(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        cls.temporary.cleanup()
        if status != 0:
            raise AssertionError(f"the server ended with status {status}: {''.join(cls.server.log)[-3000:]}")

    def listen(self, *more, input_=None, partial=False):
        """The events of antiphon listen with the same model."""
        result = system.must("listen", "--partial" if partial else "--no-partial", "--model",
                             self.root / "net/model.safetensors", "--graph", self.root / "graph", *more,
                             input_ or self.root / "call.wav")
        return [json.loads(line) for line in result.stdout.splitlines()]


def words_of(reply):
    return [word["word"] for word in reply.get("result", [])]


def form(fields, file=None, name="call.wav", boundary="xYzZy"):
    """A form's bytes and its content type."""
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
             for key, value in fields]
    if file is not None:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                     "Content-Type: application/octet-stream\r\n\r\n".encode() + file + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def main(argv=None):
    """Ends with status 1 if a case failed, else with 77, which ctest knows as skipped, if one was skipped."""
    argv = argv if argv is not None else sys.argv
    system.PROGRAM = argv.pop(2)
    argv.pop(1)
    result = unittest.main(module="__main__", argv=argv, verbosity=1, exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped else 0)
