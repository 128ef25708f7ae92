#!/usr/bin/env python3
"""Korean sentences by a synthesiser, for the only model of Vosk's that PyPI has (bench/vosk_server.py).

Writes each sentence by three voices as WAV, 16 kHz, 16 bits, one channel, and words.json, a client's config that allows
Vosk the words of the sentences alone. Needs Debian's espeak-ng and ffmpeg.

  bench/korean_speech.py FOLDER
"""

import json
import pathlib
import subprocess
import sys

SENTENCES = """
오늘 날씨가 아주 좋습니다
내일 아침 일곱 시에 만납시다
저는 한국어를 공부하고 있습니다
이 길로 쭉 가면 은행이 나옵니다
어제 친구와 함께 영화를 봤습니다
커피 한 잔 주세요
지금 몇 시입니까
다음 주 월요일에 회의가 있습니다
학교에서 도서관까지 걸어서 십 분 걸립니다
주말에는 가족과 함께 산에 갑니다
전화번호를 알려 주시겠습니까
이 책은 아주 재미있어서 하루 만에 다 읽었습니다
기차가 늦어서 약속 시간에 늦었습니다
건강을 위해서 매일 운동을 합니다
서울은 한국의 수도이고 사람이 아주 많습니다
창문을 열어 주세요
우리 회사는 올해 새로운 제품을 만들었습니다
비가 오니까 우산을 가지고 가세요
아이들이 공원에서 놀고 있습니다
선생님께서 숙제를 많이 내 주셨습니다
감사합니다 안녕히 가세요
여름에는 바다에 가고 겨울에는 스키를 탑니다
저녁에 김치찌개를 먹고 싶습니다
문제가 생기면 바로 연락해 주십시오
""".split("\n")
VOICES = [("150", "45"), ("165", "50"), ("180", "60")]  # words per minute, pitch


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [sentence for sentence in SENTENCES if sentence]
    for number, sentence in enumerate(sentences):
        for speed, pitch in VOICES:
            spoken = subprocess.run(["espeak-ng", "-v", "ko", "-s", speed, "-p", pitch, "--stdout", sentence],
                                    check=True, capture_output=True).stdout
            subprocess.run(["ffmpeg", "-loglevel", "error", "-y", "-i", "-", "-ar", "16000", "-ac", "1", "-c:a",
                            "pcm_s16le", folder / f"{number:02d}-{speed}.wav"], input=spoken, check=True)
    words = sorted({word for sentence in sentences for word in sentence.split()})
    (folder / "words.json").write_text(json.dumps({"phrase_list": words + ["[unk]"]}, ensure_ascii=False) + "\n")
    print(f"{len(sentences) * len(VOICES)} recordings, {len(words)} words")


if __name__ == "__main__":
    main()
