"""Sounds that are no speech, made by formulas: hums, tones, chords, drums, wind, noise, knocks. 16-bit, 8 kHz.

Everything follows from the random numbers that the caller gives.
"""
import array
import math

RATE = 8000
SINE = [math.sin(2 * math.pi * i / 4096) for i in range(4096)]


def scaled(values, peak):
    """Samples of the loudness that `peak` says, 0 … 1 of full scale."""
    largest = max(max(values), -min(values)) or 1.0
    factor = 32000 * peak / largest
    return array.array("h", [int(factor * value) for value in values])


def add_tone(values, begin, count, hertz, height, decay_s=None):
    """A sine, which dies away if `decay_s` says so."""
    step = 4096 * hertz / RATE
    keep = math.exp(-1 / (RATE * decay_s)) if decay_s else 1.0
    phase = 0.0
    for index in range(begin, min(begin + count, len(values))):
        values[index] += height * SINE[int(phase) & 4095]
        phase += step
        height *= keep


def hum(random_, count):
    """The mains and its overtones, with a little hiss."""
    second = [0.0] * RATE
    base = random_.choice([50, 60, 100, 120])
    for overtone in range(1, 3500 // base):
        if random_.random() < 0.5:
            add_tone(second, 0, RATE, base * overtone, random_.random() / overtone ** random_.uniform(0.3, 1.5))
    hiss = random_.uniform(0.0, 0.05)
    second = [value + random_.gauss(0, hiss) for value in second]
    return (second * (count // RATE + 1))[:count]


def tones(random_, count):
    """Ringing, dialling, alarms: one or two frequencies, on and off."""
    values = [0.0] * count
    at = 0
    pair = [random_.uniform(300, 2600) for _ in range(random_.choice([1, 2, 2, 3]))]
    on, off = random_.uniform(0.05, 2.0), random_.uniform(0.05, 1.5)
    while at < count:
        if random_.random() < 0.3:
            pair = [random_.uniform(300, 3400) for _ in pair]
        for hertz in pair:
            add_tone(values, at, int(on * RATE), hertz, 1.0)
        at += int((on + off) * RATE)
    return values


def chords(random_, count):
    """Plucked or held notes with overtones, several at a time, over a bass."""
    values = [0.0] * count
    key, at = random_.uniform(80, 160), 0
    brightness, beat = random_.uniform(0.8, 2.0), random_.uniform(0.15, 0.6)
    while at < count:
        length = int(RATE * beat * random_.choice([1, 1, 2, 4]))
        for _ in range(random_.randint(1, 3)):
            hertz = key * 2 ** (random_.choice([0, 2, 3, 5, 7, 8, 10, 12, 15, 17, 19, 24]) / 12)
            decay_s = random_.choice([0.1, 0.3, 1.0, None])
            for overtone in range(1, 7):
                if hertz * overtone < RATE / 2:
                    add_tone(values, at, length, hertz * overtone * random_.uniform(0.999, 1.001),
                             overtone ** -brightness, decay_s)
        at += length
    return values


def drums(random_, count):
    """Bursts of noise and low thumps in a rhythm."""
    values = [0.0] * count
    beat = random_.uniform(0.12, 0.5)
    pattern = [random_.choice(["hat", "snare", "thump", "rest"]) for _ in range(8)]
    for number in range(int(count / (beat * RATE)) + 1):
        at, kind = int(number * beat * RATE), pattern[number % 8]
        if kind == "thump":
            add_tone(values, at, RATE // 3, random_.uniform(50, 90), 1.0, 0.08)
        elif kind != "rest":
            height, keep = random_.uniform(0.3, 0.8), math.exp(-1 / (RATE * (0.02 if kind == "hat" else 0.08)))
            for index in range(at, min(at + RATE // 4, count)):
                values[index] += height * random_.gauss(0, 1)
                height *= keep
    return values


def song(random_, count):
    """Chords and drums together, and a tune with vibrato that glides from note to note, as voices and strings do."""
    values = [a + random_.uniform(0.3, 1.5) * b for a, b in zip(chords(random_, count), drums(random_, count))]
    phase, at, hertz = 0.0, 0, random_.uniform(150, 500)
    brightness, wobble = random_.uniform(0.7, 2.0), random_.uniform(4, 7)
    while at < count:
        target, length = random_.uniform(150, 900), int(RATE * random_.choice([0.2, 0.4, 0.8]))
        for index in range(at, min(at + length, count)):
            hertz += 0.002 * (target - hertz)
            phase += 4096 * hertz * (1 + 0.02 * SINE[int(4096 * wobble * index / RATE) & 4095]) / RATE
            values[index] += sum(SINE[int(k * phase) & 4095] * k ** -brightness for k in (1, 2, 3, 4))
        at += length + (random_.randrange(RATE) if random_.random() < 0.3 else 0)
    return values


def wind(random_, count):
    """Coloured noise that swells and falls: fans, wind, cars, water."""
    values, state, before = [], 0.0, 0.0
    colour, swell = random_.uniform(-0.3, 0.98), random_.uniform(0.05, 1.0)
    depth, phase = random_.uniform(0.0, 0.9), random_.uniform(0, 6)
    for index in range(count):
        state = colour * state + random_.gauss(0, 1)
        before += random_.uniform(0.2, 1.0) * (state - before)
        values.append(before * (1 + depth * math.sin(phase + 2 * math.pi * swell * index / RATE)))
    return values


def knocks(random_, count):
    """Steps, keys, doors: short resonances now and then, over faint noise."""
    faint = random_.uniform(0.001, 0.02)
    values = [random_.gauss(0, faint) for _ in range(count)]
    at = 0
    while at < count:
        for _ in range(random_.randint(1, 4)):
            add_tone(values, at, RATE // 5, random_.uniform(80, 3500), random_.random(), random_.uniform(0.002, 0.05))
        at += int(RATE * random_.expovariate(2.0)) + RATE // 20
    return values


def noise(random_, count):
    """Steady noise of any colour, from white over pink to brown: fans, roads, a crowd, a bad line."""
    keeps = (0.0, 0.7, 0.93, 0.985)
    heights = [random_.random() ** 2 * math.sqrt(1 - keep * keep) for keep in keeps]
    values, states = [], [0.0] * len(keeps)
    for _ in range(count):
        new = random_.gauss(0, 1)
        states = [keep * state + new for keep, state in zip(keeps, states)]
        values.append(sum(height * state for height, state in zip(heights, states)))
    return values


def hiss(random_, count):
    """What is left where nobody speaks: faint noise."""
    values = [random_.gauss(0, 1) for _ in range(count)]
    return values


KINDS = {kind.__name__: kind for kind in (hum, tones, chords, drums, song, wind, knocks, hiss, noise)}


def sound(kind, random_, seconds):
    """Of random loudness; hiss is faint."""
    peak = 10 ** random_.uniform(-3.5, -2.5) if kind == "hiss" else 10 ** random_.uniform(-1.6, -0.05)
    return scaled(KINDS[kind](random_, int(seconds * RATE)), peak)
