"""Clients that send a recording and go, say no more, or take their answer slowly.

Usage: uploads_test.py SOURCE-TREE PROGRAM
"""

import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import unittest

import serving
from serving import WORDS, form


class Uploads(serving.ServedTest):
    def start(self, *more, **given):
        server = serving.Server(self.root, *more, **given)
        self.addCleanup(server.stop)
        return server

    def send(self, server, fields, file, options=()):
        """A connection on which a recording was sent, and nothing read."""
        client = socket.socket()
        self.addCleanup(client.close)
        for level, name, value in options:
            client.setsockopt(level, name, value)
        client.settimeout(60)
        client.connect(("127.0.0.1", server.port))
        data, content_type = form((("model", "tones"), *fields), file)
        client.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
                        f"Content-Length: {len(data)}\r\n\r\n").encode() + data)
        return client

    def answer(self, client):
        response = http.client.HTTPResponse(client)
        response.begin()
        return response.status, response.read()

    def test_who_goes_leaves_no_ffmpeg_and_no_file(self):
        folder, scratch = self.root / "stub", self.root / "scratch"
        for path in (folder, scratch):
            path.mkdir()
        os.mkfifo(folder / "life")
        # Writes a part of its result, tells that it lives, and never ends.
        stub = folder / "ffmpeg"
        stub.write_text("#!/bin/sh\nfor last; do :; done\nlast=${last#file:}\necho part > \"$last\"\n"
                        f"exec /bin/sleep 600 3> '{folder}/life'\n")
        stub.chmod(0o755)
        server = self.start("--limits.uploads", 1,
                            environment={"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(scratch)})
        client = self.send(server, (), b"what libsndfile does not read")
        with open(folder / "life", "rb", buffering=0) as life:  # opens when ffmpeg runs
            client.close()
            ended = select.poll()
            ended.register(life, 0)  # no writer is left
            self.assertTrue(ended.poll(60000), "ffmpeg goes on")
        self.assertTrue(server.wait_for(lambda: server.metric("antiphon_uploads") == 0))
        self.assertEqual(list(scratch.iterdir()), [])

    @unittest.skipUnless(shutil.which("ffmpeg"), "without ffmpeg only what libsndfile reads is recognised")
    def test_reads_what_ffmpeg_reads(self):
        subprocess.run(["ffmpeg", "-v", "error", "-i", str(self.root / "call.wav"), "-c:a", "alac",
                        str(self.root / "call.m4a")], check=True)
        status, body = self.answer(self.send(self.server, (), (self.root / "call.m4a").read_bytes()))
        self.assertEqual((status, json.loads(body)["text"].split()), (200, WORDS))

    def test_who_says_no_more_gets_the_answer(self):
        """nc -N and others close their sending side behind the request."""
        wav = (self.root / "call.wav").read_bytes()
        for fields in ((), (("stream", "true"),)):
            client = self.send(self.server, fields, wav)
            client.shutdown(socket.SHUT_WR)
            status, body = self.answer(client)
            self.assertEqual(status, 200)
            last = json.loads(body.decode().split("data: ")[-1] if fields else body)
            self.assertEqual(last["text"].split(), WORDS)

    def test_says_what_is_wrong_with_the_sound(self):
        for samples, remarks in (([32767, -32768] * serving.RATE, 1), ([3000, -3000] * serving.RATE, 0)):
            status, body = self.answer(self.send(self.server, (("response_format", "verbose_json"),),
                                                 serving.system.wav_bytes(samples)))
            said = json.loads(body).get("audio_remarks", [])
            self.assertEqual((status, len(said)), (200, remarks), said)

    def test_sigterm_waits_until_an_answer_is_taken(self):
        server = self.start()
        language = "\x01" * 60000  # comes back in the answer, six times as long, which no buffer holds
        client = self.send(server, (("response_format", "verbose_json"), ("language", language)),
                           (self.root / "call.wav").read_bytes(),
                           ((socket.SOL_SOCKET, socket.SO_RCVBUF, 4096), (socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)))
        self.assertTrue(server.wait_for(lambda: server.events("upload-end")))
        server.process.send_signal(signal.SIGTERM)
        self.assertTrue(server.wait_for(lambda: server.events("draining")))
        status, body = self.answer(client)
        self.assertEqual((status, json.loads(body)["language"]), (200, language))
        self.assertEqual(server.process.wait(timeout=60), 0)


if __name__ == "__main__":
    serving.main()
