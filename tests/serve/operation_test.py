"""Running a server: limits, access, several models, speakers' profiles, signals, metrics, the log.

Usage: operation_test.py SOURCE-TREE PROGRAM
"""

import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import unittest

import serving
from serving import RATE, WORDS, ConnectionClosed, words_of


def hear(connection, raw, config=None):
    if config:
        connection.send(json.dumps({"config": config}))
    connection.send(raw)
    answers = [json.loads(connection.recv(timeout=60))]
    connection.send('{"eof" : 1}')
    answers.append(json.loads(connection.recv(timeout=60)))
    return [word for answer in answers for word in words_of(answer)]


def closed(connection):
    try:
        while True:
            connection.recv(timeout=60)
    except ConnectionClosed as error:
        return error.rcvd.code, error.rcvd.reason


class Operation(serving.ServedTest):
    @classmethod
    def prepare(cls):
        root = cls.root
        # A speaker for whom the two words are exchanged, so that a profile changes what is heard.
        shutil.copytree(root / "corpus", root / "exchanged")
        text = (root / "exchanged/text").read_text().translate(str.maketrans("AB", "BA"))
        (root / "exchanged/text").write_text(text)
        serving.system.must("adapt", root / "net/model.safetensors", "--out", root / "adapted", "--data",
                            root / "exchanged", "--graph", root / "graph", "--method", "lhuc", "--speaker", "s1",
                            "--set", "train.data.minibatch=64", "--set", "train.schedule.epochs=12", "--set",
                            "train.schedule.learning-rate=3.0")
        (root / "profiles").mkdir()
        shutil.copy(root / "adapted/profile.safetensors", root / "profiles/anna.safetensors")
        (root / "tokens").write_text("# two clients\nfirst-token\nsecond-token\n")

    def start(self, *more, **given):
        server = serving.Server(self.root, *more, **given)
        self.addCleanup(server.stop)
        return server

    def test_health_readiness_and_metrics(self):
        server = self.server
        self.assertEqual(json.loads(server.get("/health")[1])["status"], "ok")
        self.assertEqual(json.loads(server.get("/ready")[1])["status"], "ready")
        with server.connect() as connection:
            self.assertEqual(hear(connection, self.raw), WORDS)
        status, text, headers = server.get("/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        self.assertAlmostEqual(server.metric("antiphon_audio_seconds_total"), len(self.raw) / 2 / RATE, places=2)
        for name in ("antiphon_compute_seconds_total", 'antiphon_streams_total{interface="vosk"}',
                     "antiphon_final_seconds_count", "process_resident_memory_bytes"):
            self.assertGreater(server.metric(name), 0, name)
        self.assertTrue(server.wait_for(lambda: server.metric("antiphon_streams") == 0))
        self.assertEqual(server.get("/nothing")[0], 404)
        self.assertEqual(server.get("/health", "DELETE")[0], 405)
        status, body, headers = server.get("/health", "HEAD")
        self.assertEqual((status, body), (200, ""))

    def test_the_log_is_json_without_words(self):
        with self.server.connect() as connection:
            hear(connection, self.raw)
        self.assertTrue(self.server.wait_for(lambda: self.server.events("stream-end")))
        for line in list(self.server.log):
            self.assertTrue({"time", "level", "event"} <= json.loads(line).keys(), line)
        end = self.server.events("stream-end")[0]
        self.assertEqual(end["outcome"], "done")
        self.assertFalse(self.server.events("words"))
        telling = self.start("--log-words")
        with telling.connect() as connection:
            hear(connection, self.raw)
        self.assertTrue(telling.wait_for(lambda: len(telling.events("words")) >= 2))
        self.assertEqual(" ".join(event["text"] for event in telling.events("words") if event["text"]), " ".join(WORDS))

    def test_others_need_a_token(self):
        result = serving.system.run("serve", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                                    "--address", "0.0.0.0", "--port", 0)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--token-file", result.stderr)
        server = self.start("--token-file", self.root / "tokens", "--address", "0.0.0.0")
        self.assertEqual(server.get("/health")[0], 200)
        self.assertEqual(server.get("/")[0], 200)
        for path in ("/metrics", "/v1/models", "/v1/models?token=first", "/v1/models?token="):
            status, body, headers = server.get(path)
            self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), path)
            self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")
        self.assertEqual(server.get("/v1/models?token=first-token")[0], 200)
        self.assertEqual(server.get("/v1/models", Authorization="Bearer second-token")[0], 200)
        with self.assertRaises(serving.InvalidStatus) as raised:
            server.connect()
        self.assertEqual(raised.exception.response.status_code, 401)
        with server.connect("/?token=second-token") as connection:
            self.assertEqual(hear(connection, self.raw), WORDS)
        self.assertFalse(any("first-token" in line or "second-token" in line for line in server.log))

    def test_pages_of_others_are_refused(self):
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(self.server.get("/v1/models", Origin=own)[0], 200)
        for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}, {"Origin": "null"}):
            self.assertEqual(self.server.get("/v1/models", **headers)[0], 403, headers)
        with self.assertRaises(serving.InvalidStatus) as raised:
            self.server.connect(origin="https://evil.example")
        self.assertEqual(raised.exception.response.status_code, 403)
        self.assertNotIn("Access-Control-Allow-Origin", self.server.get("/v1/models")[2])
        server = self.start("--origins", "https://friend.example", "--hosts", "speech.example")
        status, _, headers = server.get("/v1/models", Origin="https://friend.example")
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://friend.example"))
        self.assertEqual(server.get("/v1/models", "OPTIONS", Origin="https://friend.example")[0], 204)
        self.assertEqual(server.get("/v1/models", Host="speech.example")[0], 200)

    def test_models_and_profiles_are_chosen_by_name(self):
        root = self.root
        server = self.start("--profiles", root / "profiles",
                            models=[f"net={root}/net/model.safetensors", f"other={root}/other/model.safetensors"])
        models = {model["id"]: model for model in json.loads(server.get("/v1/models")[1])["data"]}
        self.assertEqual(list(models), ["net", "other"])
        self.assertEqual((models["net"]["profiles"], models["other"]["profiles"]), (["anna"], []))
        profile = self.listen("--profile", root / "profiles/anna.safetensors")
        annas = [word["word"] for event in profile for word in event["words"]]
        self.assertNotEqual(annas, WORDS)
        for config, query, expected in ((None, "", WORDS), ({"profile": "anna"}, "", annas),
                                        (None, "?profile=anna", annas), ({"model": "net"}, "", WORDS)):
            with server.connect("/" + query) as connection:
                self.assertEqual(hear(connection, self.raw, config), expected, (config, query))
        with server.connect() as connection:
            hear(connection, self.raw, {"model": "other"})
        with server.connect() as connection:
            connection.send('{"config": {"model": "other", "profile": "anna"}}')
            connection.send(self.raw[:10])
            self.assertEqual(closed(connection), (1008, "the model 'other' has no profile 'anna'"))

    def test_streams_and_uploads_beyond_the_limit_are_told_why(self):
        server = self.start("--limits.streams", 1, "--limits.uploads", 0)
        with server.connect() as first:
            first.send(self.raw[:1000])
            first.recv(timeout=60)
            with server.connect() as second:
                code, reason = closed(second)
            self.assertEqual(code, 1013)
            status, body, headers = server.get("/ready")
            self.assertEqual((status, json.loads(body)["status"], headers["Retry-After"]), (503, "streams", "1"))
            self.assertIn("1 streams are open", reason)
            self.assertEqual(hear(first, self.raw[1000:]), WORDS, "the first one keeps its own")
        self.assertTrue(server.wait_for(lambda: server.metric("antiphon_streams") == 0))
        with server.connect() as third:
            self.assertEqual(hear(third, self.raw), WORDS)
        status, body, headers = server.get("/v1/audio/transcriptions", "POST", b"x", Content_Type="multipart/form-data")
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        self.assertEqual(server.get("/inference", "POST", b"x", Content_Type="multipart/form-data")[2]["Retry-After"],
                         "1")
        self.assertTrue(server.wait_for(lambda: len(server.events("refused")) == 3))
        self.assertEqual([event["reason"] for event in server.events("refused")], ["streams", "uploads", "uploads"])
        self.assertEqual(server.metric('antiphon_refused_total{reason="streams"}'), 1)

    def test_connections_are_limited(self):
        server = self.start("--limits.connections", 2)
        kept = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(2)]
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as third:
            answer = third.recv(1000)
            self.assertTrue(answer.startswith(b"HTTP/1.1 503"))
            self.assertIn(b"\r\nRetry-After: 1\r\n", answer)
            self.assertIn("2 connections are open", json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"])
        for client in kept:
            client.close()
        self.assertTrue(server.wait_for(lambda: server.get("/health")[0] == 200))

    def test_who_says_nothing_is_let_go(self):
        server = self.start("--limits.idle", 0.5)
        with server.connect() as connection:
            self.assertEqual(closed(connection), (1008, "no speech came for too long"))
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(b"GET /health HT")
            self.assertEqual(client.recv(1000), b"")
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(b"POST /inference HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n"
                           b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n")
            self.assertIn(client.recv(1000)[:12], (b"", b"HTTP/1.1 408"))
        self.assertTrue(server.wait_for(lambda: server.metric("antiphon_uploads") == 0))

    def test_a_stream_has_an_end(self):
        server = self.start("--limits.stream-length", 1.0)
        with server.connect() as connection:
            connection.send(self.raw[:2 * RATE + 2])
            self.assertIn("partial", json.loads(connection.recv(timeout=60)))
            self.assertIn("text", json.loads(connection.recv(timeout=60)))
            self.assertEqual(closed(connection), (1008, "this is as long as a stream may be"))

    def test_messages_beyond_the_rate_wait(self):
        server = self.start("--limits.messages", 200)
        with server.connect() as connection:
            for at in range(0, 2 * 600, 2):
                connection.send(self.raw[at:at + 2])
            connection.send('{"eof" : 1}')
            answers = [json.loads(connection.recv(timeout=60)) for _ in range(601)]
        self.assertIn("text", answers[-1])

    def test_who_sends_faster_than_is_computed_waits(self):
        server = self.start("--limits.queue", 1.0)
        count = 40
        with server.connect(max_queue=None) as connection:
            sender = threading.Thread(target=lambda: [connection.send(self.raw) for _ in range(count)])
            sender.start()
            heard = []
            for _ in range(count):
                heard += words_of(json.loads(connection.recv(timeout=60)))
            sender.join(timeout=60)
            connection.send('{"eof" : 1}')
            heard += words_of(json.loads(connection.recv(timeout=60)))
        self.assertGreaterEqual(len(heard), count * (len(WORDS) - 1))

    def test_signals_let_streams_end(self):
        for signal_ in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal_):
                server = self.start()
                with server.connect() as connection:
                    connection.send(self.raw[:8000])
                    connection.recv(timeout=60)
                    server.process.send_signal(signal_)
                    self.assertTrue(server.wait_for(lambda: server.events("draining")))
                    with self.assertRaises(OSError):
                        server.connect()
                    self.assertEqual(hear(connection, self.raw[8000:]), WORDS)
                self.assertEqual(server.process.wait(timeout=60), 0)

    def signalled_while_starting(self, signal_):
        """What Server takes so that it gets a signal when its models are loaded and it waits for its tokens."""
        tokens = self.root / f"tokens-{signal_.name}"
        os.mkfifo(tokens)

        def starting(process):
            self.addCleanup(process.kill)
            with open(tokens, "w") as pipe:  # opens when the server reads it
                process.send_signal(signal_)
                pipe.write("the-token\n")

        return {"starting": starting}, ("--token-file", tokens)

    def test_a_signal_ends_a_server_that_is_not_ready(self):
        for signal_ in (signal.SIGTERM, signal.SIGUSR1):
            given, options = self.signalled_while_starting(signal_)
            with self.subTest(signal_), self.assertRaisesRegex(AssertionError, "stopped on request while loading"):
                self.start(*options, **given)

    def test_sighup_before_it_is_ready_reads_the_models_anew(self):
        given, options = self.signalled_while_starting(signal.SIGHUP)
        server = self.start(*options, **given)
        self.assertTrue(server.wait_for(lambda: server.events("reloaded")))
        with server.connect("/?token=the-token") as connection:
            self.assertEqual(hear(connection, self.raw), WORDS)

    def test_sigterm_gives_what_is_there_after_the_grace(self):
        server = self.start("--limits.grace", 0.2)
        with server.connect() as connection:
            connection.send(self.raw)
            said = words_of(json.loads(connection.recv(timeout=60)))
            server.process.send_signal(signal.SIGTERM)
            said += words_of(json.loads(connection.recv(timeout=60)))
            self.assertEqual(said, WORDS)
            self.assertEqual(closed(connection), (1012, "the server is going down"))
        self.assertEqual(server.process.wait(timeout=60), 0)

    def test_sighup_reads_the_models_anew_and_drops_none(self):
        root = self.root
        model = root / "reload.safetensors"
        shutil.copy(root / "net/model.safetensors", model)
        server = self.start(models=[str(model)])
        with server.connect() as before:
            before.send(self.raw[:8000])
            before.recv(timeout=60)
            temporary = root / "new.safetensors"
            shutil.copy(root / "adapted/adapted.safetensors", temporary)
            os.replace(temporary, model)
            server.process.send_signal(signal.SIGHUP)
            self.assertTrue(server.wait_for(lambda: server.events("reloaded")))
            self.assertEqual(hear(before, self.raw[8000:]), WORDS, "with the old model")
        new = [word["word"] for event in
               map(json.loads, serving.system.must("listen", "--no-partial", "--model", model, "--graph", root / "graph",
                                                   root / "call.wav").stdout.splitlines()) for word in event["words"]]
        self.assertNotEqual(new, WORDS)
        with server.connect() as after:
            self.assertEqual(hear(after, self.raw), new)
        os.replace(shutil.copy(root / "call.wav", root / "bad"), model)
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(server.wait_for(lambda: server.events("reload-failed")))
        with server.connect() as still:
            self.assertEqual(hear(still, self.raw), new)

    def test_goes_on_when_nobody_reads_its_log(self):
        server = self.start()
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), server.process.stderr.fileno())
        for _ in range(2):  # the reader gets the line that it waits for, and then finds the end
            with server.connect() as connection:
                self.assertEqual(hear(connection, self.raw), WORDS)
            server.reader.join(timeout=60)
            self.assertFalse(server.reader.is_alive())
        self.assertEqual(server.stop(), 0)

    def test_a_model_that_cannot_recognise_live_is_not_served(self):
        root = self.root
        must = serving.system.must
        must("features", root / "corpus", "--out", root / "pitch", "--sample-rate", RATE, "--pitch-dim", 3)
        must("store", "--features", root / "pitch/feats.scp", "--cmvn", root / "pitch/cmvn.scp", "--utt2spk",
             root / "pitch/utt2spk", "--alignment", root / "align/pdf.scp", "--out", root / "pitch-store")
        must("train", "--config", root / "net.toml", "--store", root / "pitch-store", "--hmm",
             root / "align/model.safetensors", "--front-end", root / "pitch/front_end.toml", "--out", root / "pitch-net",
             "--set", "data.minibatch=64", "--set", "schedule.epochs=1")
        for model, why in (("pitch-net", "pitch-dim = 3"), ("align", "needs a network")):
            with self.assertRaises(AssertionError) as refused:
                serving.Server(root, models=[f"new={root / model}/model.safetensors"])
            for text in ("no server", "loading the model 'new'", why):
                self.assertIn(text, str(refused.exception))

    def test_what_cannot_be_read_is_answered_for_itself(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as client:
            client.sendall(b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\nno request\r\n\r\n")
            answers = b"".join(iter(lambda: client.recv(4096), b""))
        first, second = answers.split(b"HTTP/1.1 ")[1:]
        self.assertTrue(first.startswith(b"200 ") and first.endswith(b"\r\n\r\n"), first)
        self.assertTrue(second.startswith(b"400 "), second)
        self.assertIn(b"the request cannot be read", second.partition(b"\r\n\r\n")[2])

    def test_hostile_bytes_harm_nobody(self):
        server = self.server
        handshake = (b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
        import random
        random_ = random.Random(4)
        for number in range(60):
            garbage = random_.randbytes(random_.randrange(1, 3000))
            start = [b"", handshake, b"POST /inference HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
                     b"boundary=x\r\nContent-Length: 18446744073709551615\r\n\r\n",
                     b"POST /inference HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                     b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n"][number % 5]
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
                try:
                    client.sendall(start + garbage)
                    client.shutdown(socket.SHUT_WR)
                    while client.recv(4096):
                        pass
                except OSError:
                    pass
        with server.connect() as connection:
            self.assertEqual(hear(connection, self.raw), WORDS)
        self.assertTrue(server.wait_for(lambda: server.metric("antiphon_streams") == 0))

    def test_refuses_to_start_wrongly(self):
        model, graph = self.root / "net/model.safetensors", self.root / "graph"
        for status, text, arguments in ((2, "no IP address", [model, "--graph", graph, "--address", "nowhere"]),
                                        (1, "cannot listen", [model, "--graph", graph, "--port", self.server.port]),
                                        (2, "two models", [model, model, "--graph", graph]),
                                        (1, "missing.antiphon", [self.root / "missing.antiphon"])):
            result = serving.system.run("serve", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, ""), result.stderr)
            self.assertIn(text, result.stderr)

    def test_raises_the_limit_of_open_files(self):
        _, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        server = self.start("--limits.connections", 200)
        with open(f"/proc/{server.process.pid}/limits", encoding="ascii") as limits:
            soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
        self.assertEqual(int(soft), min(hard, 2**20) if hard >= 0 else 2**20)

    def test_refuses_more_connections_than_open_files(self):
        command = [serving.system.PROGRAM, "serve", self.root / "net/model.safetensors", "--graph", self.root / "graph",
                   "--limits.connections", 5000]
        result = subprocess.run(["sh", "-c", 'ulimit -n 700 && exec "$@"', "sh", *map(str, command)],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for text in ("--limits.connections 5000", "may have 700 only", "ulimit -Hn"):
            self.assertIn(text, result.stderr)


if __name__ == "__main__":
    serving.main()
