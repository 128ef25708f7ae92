"""Vosk's WebSocket protocol: clients as vosk-server ships them, written anew from the protocol, against the server.

Usage: vosk_protocol_test.py SOURCE-TREE PROGRAM
"""

import asyncio
import contextlib
import json
import random
import struct
import unittest

import serving
from serving import RATE, WORDS, words_of

import websockets.asyncio.client


def frames(raw, size):
    return [raw[at:at + size] for at in range(0, len(raw), size)]


def python_client(connection, raw, rate, piece=0.2, config=True):
    """test.py of vosk-server: a frame, its answer, the next one; then eof and the last answer."""
    if config:
        connection.send(json.dumps({"config": {"sample_rate": rate}}))
    answers = []
    for frame in frames(raw, int(rate * piece) * 2):
        connection.send(frame)
        answers.append(json.loads(connection.recv(timeout=60)))
    connection.send('{"eof" : 1}')
    answers.append(json.loads(connection.recv(timeout=60)))
    return answers


def finals(answers):
    return [answer for answer in answers if "text" in answer]


class Vosk(serving.ServedTest):
    options = ("--limits.frame-bytes", 131072)

    def closes(self, connection, code):
        with self.assertRaises(serving.ConnectionClosed) as raised:
            while True:
                connection.recv(timeout=60)
        self.assertEqual(raised.exception.rcvd.code, code, raised.exception)
        return raised.exception.rcvd.reason

    def same_as_listen(self, answers):
        """Words, times and confidences of Vosk's form, against listen's."""
        expected = [{"conf": word["confidence"], "end": word["end"], "start": word["start"], "word": word["word"]}
                    for event in self.listen() for word in event["words"]]
        self.assertEqual([word for answer in finals(answers) for word in answer.get("result", [])], expected)
        self.assertEqual([word["word"] for word in expected], WORDS)

    def test_python_client(self):
        with self.server.connect("/any/path") as connection:
            answers = python_client(connection, self.raw, RATE)
            self.assertEqual(self.closes(connection, 1000), "")
        self.assertEqual(len(answers), len(frames(self.raw, RATE // 5 * 2)) + 1, "one answer for each message")
        self.same_as_listen(answers)
        self.assertTrue(any(answer.get("partial") for answer in answers))
        self.assertGreater(len([answer for answer in finals(answers) if answer["text"]]), 1)

    def test_asyncio_client_that_does_not_wait(self):
        async def talk():
            url = self.server.url("/", "ws")
            async with websockets.asyncio.client.connect(url, compression=None, proxy=None) as connection:
                await connection.send('{"config":{"sample_rate":8000.0}}')

                async def send():
                    for frame in frames(self.raw, 1000):
                        await connection.send(frame)
                    await connection.send('{"eof":true}')

                sending = asyncio.create_task(send())
                answers = [json.loads(text) async for text in connection]
                await sending
                return answers

        answers = asyncio.run(asyncio.wait_for(talk(), 60))
        self.assertEqual(len(answers), len(frames(self.raw, 1000)) + 1)
        self.same_as_listen(answers)

    def test_asterisk_says_nothing_and_sends_20_ms(self):
        with self.server.connect("/") as connection:
            answers = python_client(connection, self.raw, RATE, piece=0.02, config=False)
        self.same_as_listen(answers)

    def test_jigasi_names_a_rate_alone(self):
        rate = 48000
        samples = struct.unpack(f"<{len(self.raw) // 2}h", self.raw)
        # Each sample six times: what an audio card would not do, but the words survive it.
        wide = struct.pack(f"<{len(samples) * 6}h", *(sample for sample in samples for _ in range(6)))
        with self.server.connect() as connection:
            answers = python_client(connection, wide, rate)
        self.assertEqual([word for answer in finals(answers) for word in words_of(answer)], WORDS)

    def test_bytes_may_be_cut_anywhere(self):
        random_ = random.Random(3)
        with self.server.connect() as connection:
            answers, at = [], 0
            while at < len(self.raw):
                length = random_.choice([0, 1, 7, 160, 3001])
                connection.send(self.raw[at:at + length])
                answers.append(json.loads(connection.recv(timeout=60)))
                at += length
            connection.send('{"eof" : 1}')
            answers.append(json.loads(connection.recv(timeout=60)))
        self.same_as_listen(answers)

    def test_many_clients_at_once_hear_what_each_hears_alone(self):
        async def talk(size):
            url = self.server.url("/", "ws")
            async with websockets.asyncio.client.connect(url, compression=None, proxy=None) as connection:
                answers = []
                for frame in frames(self.raw, size):
                    await connection.send(frame)
                    answers.append(json.loads(await connection.recv()))
                await connection.send('{"eof" : 1}')
                answers.append(json.loads(await connection.recv()))
                return answers

        async def all_of_them():
            return await asyncio.gather(*(talk(800 + 322 * number) for number in range(12)))

        for answers in asyncio.run(asyncio.wait_for(all_of_them(), 100)):
            self.same_as_listen(answers)

    def test_words_and_alternatives(self):
        with self.server.connect() as connection:
            connection.send('{"config": {"words": 0}}')
            answers = finals(python_client(connection, self.raw, RATE))
        self.assertFalse(any("result" in answer for answer in answers))
        self.assertEqual(" ".join(answer["text"] for answer in answers if answer["text"]).split(), WORDS)
        with self.server.connect() as connection:
            connection.send('{"config": {"max_alternatives": 3}}')
            answers = [answer for answer in python_client(connection, self.raw, RATE) if "alternatives" in answer]
        said = [answer["alternatives"] for answer in answers if answer["alternatives"][0]["text"]]
        self.assertEqual(" ".join(best[0]["text"] for best in said).split(), WORDS)
        for alternatives in said:
            self.assertLessEqual(len(alternatives), 3)
            self.assertGreater(len(alternatives), 1)
            costs = [entry["confidence"] for entry in alternatives]
            self.assertEqual(costs, sorted(costs, reverse=True))
            self.assertEqual([word["word"] for word in alternatives[0]["result"]], alternatives[0]["text"].split())
            self.assertEqual(len({entry["text"] for entry in alternatives}), len(alternatives))

    def hear_phrases(self, phrases):
        """The words of each result, which are those of listen with the same list."""
        with self.server.connect() as connection:
            connection.send(json.dumps({"config": {"phrase_list": phrases}}))
            answers = finals(python_client(connection, self.raw, RATE))
        (self.root / "phrases").write_text("".join(phrase + "\n" for phrase in phrases))
        expected = [{"conf": word["confidence"], "end": word["end"], "start": word["start"], "word": word["word"]}
                    for event in self.listen("--word-list", self.root / "phrases") for word in event["words"]]
        self.assertEqual([word for answer in answers for word in answer.get("result", [])], expected)
        self.assertTrue(expected)
        return [answer["text"].split() for answer in answers if answer["text"]]

    def test_a_phrase_list_allows_whole_phrases_and_nothing_else(self):
        said = self.hear_phrases(["A B", "B A B"])
        self.assertEqual([word for words in said for word in words], WORDS)
        for words in self.hear_phrases(["A B"]):
            self.assertEqual(words, ["A", "B"] * (len(words) // 2))
        self.assertEqual({word for words in self.hear_phrases(["A"]) for word in words}, {"A"})

    def test_other_words_between_phrases_are_unknown_ones(self):
        said = self.hear_phrases(["A", "[unk]"])
        self.assertEqual({word for words in said for word in words}, {"A", "[unk]"})
        self.assertFalse([words for words in said if ("[unk]", "[unk]") in zip(words, words[1:])])
        self.assertEqual([word for words in said for word in words].count("A"), WORDS.count("A"))

    def test_phrases_that_the_model_cannot_say(self):
        self.assertEqual({word for words in self.hear_phrases(["A nothing", "B"]) for word in words}, {"B"})
        with self.server.connect() as connection:
            connection.send('{"config": {"phrase_list": ["A nothing"]}}')
            connection.send(self.raw[:1000])
            self.assertIn("'nothing' is not in the graph's vocabulary", self.closes(connection, 1008))

    def test_silence_has_the_empty_text(self):
        with self.server.connect() as connection:
            answers = python_client(connection, bytes(2 * RATE), RATE)
        self.assertEqual(answers[-1], {"text": ""})
        self.assertTrue(all(answer == {"partial": ""} for answer in answers[:-1]))
        with self.server.connect() as connection:
            connection.send('{"eof" : 1}')
            self.assertEqual(json.loads(connection.recv(timeout=60)), {"text": ""})
            self.closes(connection, 1000)

    def test_reset_begins_anew(self):
        with self.server.connect() as connection:
            for _ in range(2):
                connection.send(self.raw)
                first = json.loads(connection.recv(timeout=60))
                connection.send('{"reset" : 1}')
                rest = json.loads(connection.recv(timeout=60))
                self.assertEqual((words_of(first) + words_of(rest)), WORDS)
            connection.send('{"eof" : 1}')
            self.assertEqual(json.loads(connection.recv(timeout=60)), {"text": ""})

    def test_events_as_listen_prints_them(self):
        for partial in (0, 1):
            with self.server.connect() as connection:
                connection.send('{"config": {"format": "listen", "sample_rate": 8000, "partial": %d}}' % partial)
                for frame in frames(self.raw, 3000):
                    connection.send(frame)
                connection.send('{"eof" : 1}')
                lines = []
                with self.assertRaises(serving.ConnectionClosed):
                    while True:
                        lines.append(json.loads(connection.recv(timeout=60)))
            self.assertEqual(lines, self.listen(partial=bool(partial)), "bit for bit")
            self.assertEqual(any(line["words"] for line in lines if not line["final"]), bool(partial))

    def test_words_with_times_so_far(self):
        with self.server.connect() as connection:
            connection.send('{"config": {"sample_rate": 8000, "partial_words": 1}}')
            answers = []
            for frame in frames(self.raw, 3000):
                connection.send(frame)
                answers.append(json.loads(connection.recv(timeout=60)))
            connection.send('{"eof" : 1}')
            answers.append(json.loads(connection.recv(timeout=60)))
        self.same_as_listen(answers)
        partial = [answer for answer in answers if answer.get("partial")]
        self.assertTrue(partial)
        for answer in partial:
            words = answer["partial_result"]
            self.assertEqual(" ".join(word["word"] for word in words), answer["partial"])
            times = [time for word in words for time in (word["start"], word["end"])]
            self.assertEqual(times, sorted(times))
            self.assertNotIn("conf", words[0])

    def test_refuses_with_a_reason(self):
        for message, reason in (('{"config": {"sample_rate": 1}}', "sample_rate"), ("hello", "JSON"),
                                ('{"config": {"model": "../../etc/passwd"}}', "no model"),
                                ('{"config": {"profile": "anna"}}', "no profile")):
            with self.server.connect() as connection:
                connection.send(message)
                with contextlib.suppress(serving.ConnectionClosed):  # by a server that was faster
                    connection.send(self.raw[:100])
                self.assertIn(reason, self.closes(connection, 1008), message)
        with self.server.connect() as connection:
            connection.send(bytes(140000))
            self.closes(connection, 1009)
        # None of it did harm.
        with self.server.connect() as connection:
            self.same_as_listen(python_client(connection, self.raw, RATE))


if __name__ == "__main__":
    serving.main()
