#!/usr/bin/env python3
"""Ways to adapt a trained model, side by side: word error rates on new speech and on the old, by minutes of new speech.

A task (bench/adapt_*.toml) names a finished recipe, the speech to adapt to in several amounts, the sets to recognise
and the methods. For each seed a network is trained (seed 1: the recipe's own), another part of the speech is drawn, and
every method is run. Weights of the language model are chosen on dev for every model (without a dev
set: the recipe's); test only counts errors. What is finished is read, not repeated; OUT/table.md and OUT/results.json
hold what this call asked for.

  bench/compare_adapt.py bench/adapt_demo.toml --set exp=exp/demo --out exp/adapt_demo --program build/release/antiphon
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tomllib
import wave


class Task:
    def __init__(self, options):
        with open(options.task, "rb") as file:
            text = file.read().decode()
        self.options = options
        variables = dict(pair.split("=", 1) for pair in options.set)
        variables |= {"out": options.out, "source": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
        for name, value in variables.items():
            text = text.replace("${" + name + "}", value)
        if "${" in text:
            sys.exit(f"{options.task}: give a value: --set {text.split('${', 1)[1].split('}', 1)[0]}=...")
        self.__dict__ |= tomllib.loads(text)

    def run(self, log, *words):
        """A command of the program; its output goes to a file."""
        os.makedirs(os.path.dirname(log), exist_ok=True)
        environment = dict(os.environ, OMP_NUM_THREADS=str(self.options.threads), OMP_WAIT_POLICY="passive")
        with open(log, "w", encoding="utf-8") as file:
            command = [self.options.program, *words, "--threads", str(self.options.threads)]
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment).returncode
        if code:
            with open(log, encoding="utf-8") as file:
                sys.exit(f"{' '.join(command)}\n{file.read()[-2000:]}")

    def folder(self, *names):
        return os.path.join(self.options.out, *[str(name).replace(" ", "-") for name in names])


def read_map(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {line.split()[0]: line.rstrip("\n").split(maxsplit=1)[-1] for line in file if line.strip()}


def durations(folder):
    given = read_map(os.path.join(folder, "utt2dur"))
    if given:
        return {utterance: float(seconds) for utterance, seconds in given.items()}
    result = {}
    for utterance, path in read_map(os.path.join(folder, "wav.scp")).items():
        with wave.open(path) as file:
            result[utterance] = file.getnframes() / file.getframerate()
    return result


def write_data(task, folders, utterances, out, text):
    """A data directory of some utterances of others."""
    os.makedirs(out, exist_ok=True)
    for name in ("text", "utt2spk", "segments", "wav.scp"):
        table = {}
        for folder in folders:
            table |= read_map(os.path.join(folder, name))
        if not table or (name == "text" and not text):
            continue
        if name == "wav.scp":
            recordings = {line.split()[0] for folder in folders
                          for line in read_map(os.path.join(folder, "segments")).values()}
            audio = os.path.abspath(task.speech.get("audio", ""))
            table = {key: os.path.join(audio, path) for key, path in table.items()
                     if key in utterances or key in recordings}
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.writelines(f"{key} {value}\n" for key, value in sorted(table.items())
                            if name == "wav.scp" or key in utterances)


def of_speakers(folders, speakers):
    speaker_of = {}
    for folder in folders:
        speaker_of |= read_map(os.path.join(folder, "utt2spk"))
    return {utterance for utterance, speaker in speaker_of.items() if not speakers or speaker in speakers}


def in_fold(utterance, fold, folds):
    """A fold of a set: the same utterances for all seeds and methods."""
    return int(hashlib.sha1(f"fold {utterance}".encode()).hexdigest(), 16) % folds == fold


def fold_levels(task, level):
    """A level that adapts to all of test but a fold and tests on that fold, once for each fold; another level: itself."""
    folds = level.get("test-folds", 1)
    if folds == 1:
        return [level]
    return [level | {"name": os.path.join(level["name"], f"fold{fold + 1}-of-{folds}"), "fold": fold,
                     "data": level["data"] + [task.sets["test"]["data"]]} for fold in range(folds)]


def draw_speech(task, seed, level):
    """A data directory with `seconds` of the level's speech, drawn by the seed; another one without transcripts."""
    out = task.folder(f"seed{seed}", level["name"], "speech")
    if os.path.exists(os.path.join(out, "unlabelled", "wav.scp")):
        return out
    wanted = of_speakers(level["data"], level.get("speakers"))
    if "fold" in level:
        tested = of_speakers([task.sets["test"]["data"]], None)
        wanted -= {u for u in tested if in_fold(u, level["fold"], level["test-folds"])}
    length = {u: s for folder in level["data"] for u, s in durations(folder).items() if u in wanted}
    chosen, seconds = set(), 0.0
    for utterance in sorted(length, key=lambda u: hashlib.sha1(f"{seed} {u}".encode()).hexdigest()):
        if seconds + length[utterance] <= level.get("seconds", 1e9):
            chosen.add(utterance)
            seconds += length[utterance]
    print(f"seed {seed}, {level['name']}: {len(chosen)} utterances, {seconds:.1f} s", flush=True)
    for kind in ("known", "unlabelled"):
        write_data(task, level["data"], chosen, os.path.join(out, kind), kind == "known")
    return out


def set_tables(task, name, level):
    """Options of decode for a set: tables as named, or a data directory of some speakers or of a fold, made here."""
    tables = dict(task.sets[name])
    speakers = tables.pop("speakers", None)
    folded = name == "test" and "fold" in level
    if speakers or folded:
        utterances = of_speakers([tables["data"]], speakers)
        folder = task.folder("sets", name)
        if folded:
            utterances = {u for u in utterances if in_fold(u, level["fold"], level["test-folds"])}
            folder += f"-{level['fold'] + 1}-of-{level['test-folds']}"
        if not os.path.exists(os.path.join(folder, "wav.scp")):
            write_data(task, [tables["data"]], utterances, folder, True)
        tables["data"] = folder
    return [word for key, value in tables.items() for word in ("--" + key, value)]


def decode(task, model, name, level, out, *options):
    """Errors and words of a set; what an earlier run finished is read."""
    if not os.path.exists(os.path.join(out, "summary.json")):
        run_decode(task, model, name, level, out, *options)
    with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
        score = json.load(file)["score"]
    return {"errors": score["errors"], "words": score["reference_length"]}


def run_decode(task, model, name, level, out, *options):
    words = set_tables(task, name, level)
    transforms = os.path.join(task.folder("transforms", name), "fmllr.scp")
    if os.path.exists(transforms):
        words += ["--speaker-transforms", transforms]
    task.run(out + ".log", "decode", "--model", model, "--graph", task.base["graph"], "--out", out, "--no-lattices",
             *words, *options)


def recognise(task, model, level, out, weights=None):
    """All sets; weights of the language model from dev unless they are given."""
    result = {}
    if "dev" not in task.sets:
        weights = task.base["weights"]
    if weights is None:
        result["dev"] = decode(task, model, "dev", level, os.path.join(out, "dev"), "--tune")
        weights = os.path.join(out, "dev", "weights.toml")
        with open(weights, encoding="utf-8") as file:
            chosen = float(file.readline().split()[-2])  # "# chosen on dev: WER 21.80 %"
        result["dev"]["errors"] = round(chosen / 100 * result["dev"]["words"])
    for name in task.sets:
        if name != "dev" and (name != "test" or not task.options.dev_only):
            result[name] = decode(task, model, name, level, os.path.join(out, name), "--weights", weights)
    return result


def base_model(task, seed):
    if seed == 1:
        return task.base["model"]
    folder = task.folder(f"seed{seed}", "network")
    model = os.path.join(folder, "model.safetensors")
    if not os.path.exists(model):
        print(f"seed {seed}: training a network", flush=True)
        task.run(folder + ".log", "train", "--config", task.base["config"], "--seed", str(seed), "--out", folder)
    return model


def recognising_graph(task):
    """For the speech that is adapted to: one whose language model has not seen what is said there, if there is one."""
    return task.base.get("unseen-graph", task.base["graph"])


def prepare_store(task, seed, level, kind):
    """The speech of a level, aligned with its transcripts or with what the network recognises."""
    out = task.folder(f"seed{seed}", level["name"], kind)
    store = os.path.join(out, "store")
    if not os.path.exists(os.path.join(store, "store.json")):
        words = ["--unsupervised", "--weights", task.base["weights"]] if kind == "unsupervised" else []
        data = os.path.join(draw_speech(task, seed, level), "known")
        task.run(out + ".log", "adapt", base_model(task, seed), "--method", "fmllr", "--set", "fmllr.min-frames=1",
                 "--data", data, "--graph", recognising_graph(task), "--old-store", task.base["store"], "--out", out, *words)
    return store


def adapt(task, seed, level, method, out):
    """Runs antiphon adapt unless it has been run with these options; an older folder is emptied."""
    asked = os.path.join(out, "asked.json")
    if os.path.exists(asked):
        with open(asked, encoding="utf-8") as file:
            if json.load(file) == method:
                return
    shutil.rmtree(out, ignore_errors=True)
    kind = method.get("speech", "supervised")
    if kind == "unlabelled":
        speech = ["--data", os.path.join(draw_speech(task, seed, level), "unlabelled"), "--graph", recognising_graph(task),
                  "--weights", task.base["weights"]]
    else:
        speech = ["--store", prepare_store(task, seed, level, kind)]
    options = [word for option in method["options"] for word in ("--set", option)]
    task.run(os.path.join(out, "adapt.log"), "adapt", base_model(task, seed), "--method", method["method"], *speech,
             "--old-store", method.get("old-store", task.base["store"]), "--out", out, "--seed", str(seed), *options)
    with open(asked, "w", encoding="utf-8") as file:
        json.dump(method, file)


def run_method(task, seed, level, name):
    method = task.methods[name]
    out = task.folder(f"seed{seed}", level["name"], name)
    adapt(task, seed, level, method, out)
    weights = None
    if "weights-of" in level:
        smaller = task.folder(f"seed{seed}", level["weights-of"], name, "decode", "dev", "weights.toml")
        if not os.path.exists(smaller):
            run_method(task, seed, next(l for l in task.speech["levels"] if l["name"] == level["weights-of"]), name)
        weights = smaller
    with open(os.path.join(out, "adaptation.json"), encoding="utf-8") as file:
        adaptation = json.load(file)
    result = {"seed": seed, "level": level["name"], "method": name, "options": method["options"],
              "wer": recognise(task, os.path.join(out, "adapted.safetensors"), level, os.path.join(out, "decode"), weights),
              "accepted": adaptation["accepted"], "new": adaptation["new"], "old": adaptation["old"],
              "probe": adaptation["probe"], "rho": adaptation["rho"]}
    print(f"seed {seed}, {level['name']}, {name}: {summary(result)}", flush=True)
    return result


def run_level(task, seed, level, name):
    """A method with an amount of speech; errors are added up over the folds."""
    parts = [run_method(task, seed, part, name) for part in fold_levels(task, level)]
    if len(parts) == 1:
        return parts[0]
    total = parts[0] | {"level": level["name"], "accepted": all(part["accepted"] for part in parts), "wer": {
        key: {unit: sum(part["wer"][key][unit] for part in parts) for unit in ("errors", "words")}
        for key in parts[0]["wer"]}}
    print(f"seed {seed}, {level['name']}, {name}, all folds: {summary(total)}", flush=True)
    return total


def run_base(task, seed):
    result = {"seed": seed, "level": "-", "method": "none",
              "wer": recognise(task, base_model(task, seed), {}, task.folder(f"seed{seed}", "base", "decode"))}
    print(f"seed {seed}, as it was: {summary(result)}", flush=True)
    return result


def percent(score):
    return 100 * score["errors"] / score["words"]


def summary(result):
    return ", ".join(f"{name} {percent(score):.2f} %" for name, score in result["wer"].items())


def spread(values):
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f}-{max(values):.1f})"


def table(task, results):
    sets = " | ".join(f"{name} WER, %" for name in task.sets)
    rows = [f"| method | speech | seeds | {sets} | kept by the guard |", "|---" * (4 + len(task.sets)) + "|"]
    keys = list(dict.fromkeys((r["method"], r["level"]) for r in results))
    for method, level in keys:
        of_key = [r for r in results if (r["method"], r["level"]) == (method, level)]
        cells = [spread([percent(r["wer"][name]) for r in of_key if name in r["wer"]]) for name in task.sets]
        kept = [r["accepted"] for r in of_key if "accepted" in r]
        rows.append(f"| {method} | {level} | {len(of_key)} | " + " | ".join(cells) + f" | {sum(kept)} of {len(kept)} |")
    return "\n".join(rows) + "\n"


def prepare(task):
    """What the task needs before anything is compared: some speakers' part of a data directory, or what a command makes."""
    programs = {"antiphon": task.options.program, "python": sys.executable}
    for step in task.__dict__.get("prepare", []):
        if os.path.exists(step["output"]):
            continue
        if "speakers" in step:
            write_data(task, step["data"], of_speakers(step["data"], step["speakers"]), os.path.dirname(step["output"]), True)
        else:
            subprocess.run([programs.get(word, word) for word in step["command"]], check=True)


def find_transforms(task):
    """Speakers' transforms come from Gaussians, whatever network is tried: once is enough."""
    for name in task.sets if task.base.get("speaker-adapted") else ():
        decode(task, task.base["model"], name, {}, task.folder("transforms", name))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task")
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE, for ${NAME} in the task")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--methods", nargs="*", help="only these")
    parser.add_argument("--levels", nargs="*", help="only these amounts of speech")
    parser.add_argument("--dev-only", action="store_true", help="leave test alone: to choose settings")
    parser.add_argument("--threads", type=int, default=1)
    task = Task(parser.parse_args())
    prepare(task)
    find_transforms(task)
    results = []
    for seed in task.options.seeds:
        results.append(run_base(task, seed))
        for level in task.speech["levels"]:
            if task.options.levels and level["name"] not in task.options.levels:
                continue
            if task.options.dev_only and "test-folds" in level:
                continue  # it adapts to a part of test
            for name in task.options.methods or task.methods:
                results.append(run_level(task, seed, level, name))
                with open(task.folder("table.md"), "w", encoding="utf-8") as file:
                    file.write(table(task, results))
    with open(task.folder("results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print(table(task, results))


if __name__ == "__main__":
    main()
