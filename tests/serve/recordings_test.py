"""OpenAI's interface for recordings, by its own client; whisper.cpp's; formats and errors.

Usage: recordings_test.py SOURCE-TREE PROGRAM
"""

import json
import struct
import sys
import unittest

import serving
from serving import WORDS, form

try:
    import openai
except ImportError:
    print("skipped: the Python package openai is missing (scripts/venv)")
    sys.exit(77)


class Recordings(serving.ServedTest):
    options = ("--set", "limits.upload-bytes=1000000", "--set", "limits.stream-length=20.0")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.server.url("/v1"), api_key="none", max_retries=0, timeout=100)
        cls.wav = (cls.root / "call.wav").read_bytes()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def transcribe(self, **more):
        with open(self.root / "call.wav", "rb") as file:
            return self.client.audio.transcriptions.create(model="tones", file=file, **more)

    def post(self, path, fields, file=None, **more):
        data, content_type = form(fields, file)
        return self.server.get(path, "POST", data, **({"Content_Type": content_type} | more))

    def expected(self):
        return self.listen()

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], ["tones"])
        self.assertEqual(self.client.models.retrieve("tones").owned_by, "antiphon")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("whisper-1")

    def test_words_are_those_of_listen(self):
        verbose = self.transcribe(response_format="verbose_json", timestamp_granularities=["word", "segment"],
                                  language="en", temperature=0.5)
        events = [event for event in self.expected() if event["text"]]
        self.assertEqual([(word.word, word.start, word.end) for word in verbose.words],
                         [(word["word"], word["start"], word["end"]) for event in events for word in event["words"]])
        self.assertEqual([word.word for word in verbose.words], WORDS)
        self.assertEqual([segment.text for segment in verbose.segments], [event["text"] for event in events])
        self.assertEqual((verbose.language, verbose.text), ("en", " ".join(WORDS)))
        self.assertAlmostEqual(float(verbose.duration), len(self.raw) / 2 / serving.RATE, places=2)

    def test_formats(self):
        self.assertEqual(self.transcribe().text, " ".join(WORDS))
        self.assertEqual(self.transcribe(response_format="text").strip(), " ".join(WORDS))
        srt = self.transcribe(response_format="srt")
        self.assertRegex(srt, r"\A1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\nA B\n\n2\n")
        vtt = self.transcribe(response_format="vtt")
        self.assertRegex(vtt, r"\AWEBVTT\n\n00:00:0\d\.\d{3} --> 00:00:0\d\.\d{3}\nA B\n\n")
        segments = self.transcribe(response_format="verbose_json")
        self.assertIsNone(segments.words)
        self.assertEqual(len(segments.segments), 2)

    def test_events(self):
        events = list(self.transcribe(stream=True))
        self.assertEqual("".join(event.delta for event in events if event.type == "transcript.text.delta"),
                         " ".join(WORDS))
        self.assertEqual((events[-1].type, events[-1].text), ("transcript.text.done", " ".join(WORDS)))

    def test_prompts_prefer_phrases(self):
        self.assertEqual(self.transcribe(prompt="A, B; a phrase of words that are not there").text, " ".join(WORDS))

    def test_errors_are_of_openais_form(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            with open(self.root / "call.wav", "rb") as file:
                self.client.audio.transcriptions.create(model="whisper-1", file=file)
        self.assertEqual(raised.exception.code, "model_not_found")
        self.assertIn("tones", raised.exception.message)
        for more in ({"response_format": "diarized_json"}, {"timestamp_granularities": ["frame"]},
                     {"include": ["logprobs"]}):
            with self.assertRaises(openai.BadRequestError) as raised:
                self.transcribe(**more)
            self.assertEqual(raised.exception.type, "invalid_request_error")
        for fields, file in (((("model", "tones"),), None), ((("language", "en"),), self.wav)):
            status, body, _ = self.post("/v1/audio/transcriptions", fields, file)
            self.assertEqual(status, 400)
            self.assertIn("form has no", json.loads(body)["error"]["message"])
        status, body, headers = self.server.get("/v1/audio/transcriptions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.get("/v1/audio/transcriptions", "POST", b"{}")[0], 400)
        self.assertEqual(self.server.get("/v1/audio/translations", "POST", b"{}")[0], 404)

    def test_recordings_that_are_none(self):
        fields = (("model", "tones"),)
        for name, bytes_ in (("none", b""), ("text", b"hello" * 100), ("cut", self.wav[:40]),
                             ("a size that lies", self.wav[:40] + struct.pack("<I", 0xFFFFFFF0) + self.wav[44:60])):
            status, body, _ = self.post("/v1/audio/transcriptions", fields, bytes_)
            with self.subTest(name):
                if name == "a size that lies" and status == 200:
                    continue  # libsndfile reads what is there
                self.assertEqual(status, 400, body)
                error = json.loads(body)["error"]
                self.assertIn("the recording cannot be read", error["message"])
                self.assertEqual(error["param"], "file")
        status, body, _ = self.post("/v1/audio/transcriptions", fields, bytes(1 << 20))
        self.assertEqual(status, 413, body)
        long = serving.system.wav_bytes([0] * serving.RATE * 21)
        status, body, _ = self.post("/v1/audio/transcriptions", fields, long)
        self.assertEqual(status, 413, body)
        self.assertIn("longer than 20", json.loads(body)["error"]["message"])

    def test_whisper_cpp(self):
        status, body, _ = self.post("/inference", (("temperature", "0.0"), ("temperature_inc", "0.2")), self.wav)
        self.assertEqual((status, json.loads(body)["text"].split()), (200, WORDS))
        status, body, _ = self.post("/inference", (("response_format", "srt"),), self.wav)
        self.assertTrue(body.startswith("1\n"), body)
        status, body, _ = self.post("/inference", (), None)
        self.assertEqual((status, json.loads(body)), (400, {"error": "no 'file' field in the request"}))

    def test_curl_waits_for_100_continue(self):
        data, content_type = form((("model", "tones"),), self.wav)
        import socket
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as client:
            client.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                            f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n").encode())
            self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 100 Continue"))
            client.sendall(data)
            self.assertTrue(client.recv(1000).startswith(b"HTTP/1.1 200"))


class Written(serving.ServedTest):
    """A server that was asked for what people would write."""

    @classmethod
    def prepare(cls):
        (cls.root / "tones.rules").write_text('written = "a b":"AB" | "b":"bee" <1>\n')
        serving.system.must("written", "rules", cls.root / "tones.rules", cls.root / "tones.fst")
        cls.options = ("--written", cls.root / "tones.fst")

    def test_clients_get_it_in_place_of_the_words(self):
        events = [event for event in self.listen(*self.options) if event["text"]]
        texts = [event["written"] for event in events]
        words = [word["word"] for event in events for word in event["written_words"]]
        self.assertTrue(texts[0].startswith("AB"), texts)
        body, content_type = form([("model", "tones"), ("response_format", "verbose_json"),
                                   ("timestamp_granularities[]", "word"), ("timestamp_granularities[]", "segment")],
                                  (self.root / "call.wav").read_bytes())
        status, answer, _ = self.server.get("/v1/audio/transcriptions", "POST", body, Content_Type=content_type)
        self.assertEqual(status, 200, answer)
        verbose = json.loads(answer)
        self.assertEqual([segment["text"] for segment in verbose["segments"]], texts)
        self.assertEqual([word["word"] for word in verbose["words"]], words)
        with self.server.connect() as connection:
            connection.send(json.dumps({"config": {"sample_rate": serving.RATE, "partial": 0}}))
            connection.send(self.raw)
            connection.send('{"eof" : 1}')
            replies = [json.loads(reply) for reply in connection]
        self.assertEqual([reply["text"] for reply in replies if reply.get("text")], texts)
        self.assertEqual([word for reply in replies for word in serving.words_of(reply)], words)


if __name__ == "__main__":
    serving.main()
