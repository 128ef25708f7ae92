#!/usr/bin/env python3
"""Asynchronous SGD over slow links: workers that serve, a pool of dedicated servers, and values that travel ahead.

Trains one network by asgd on "machines" that are network namespaces (bench/shaped_links.py), one rank each, in four ways,
and again with parallel.world = "simulated" on the cluster that `antiphon bench comm` describes on these links. Prints, per
way and rate: frames/s of all that learn, the mean staleness of their pushes, MB over the links, and the same simulated.
Needs root.

  bench/servers_on_links.py --program build/release/antiphon --machines 3 --rates-mbit 100 1000
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import codecs_on_links
import shaped_links

WAYS = {
    "workers serve": [],
    "workers serve, overlap": ["overlap=true"],
    "one server": ["servers=1", "dedicated-servers=true"],
    "one server, overlap": ["servers=1", "dedicated-servers=true", "overlap=true"],
}


def staleness(run):
    pushes = [json.loads(line) for line in open(run / "metrics.jsonl")]
    found = [record["staleness"] for record in pushes if "staleness" in record]
    return found[-1] if found else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/antiphon")
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--rates-mbit", type=float, nargs="+", default=[100, 1000])
    parser.add_argument("--width", type=int, default=512, help="units of the three hidden layers")
    parser.add_argument("--push-every", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60, help="minibatches of all together")
    parser.add_argument("--gflops", type=float, default=40, help="of a simulated device")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, "stdin": subprocess.DEVNULL,
           "env": dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="1")}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        codecs_on_links.make_store(program, folder, int(options.steps * 256 / 0.95) + 1000)
        config = codecs_on_links.CONFIG.format(context=codecs_on_links.CONTEXT, width=options.width,
                                               workers=options.machines).replace('"ssgd"', '"asgd"')
        print("rate_mbit way                     frames/s staleness  MB_sent  simulated: frames/s staleness")
        for rate in options.rates_mbit:
            command = [program, "bench", "comm", "--workers", "2", "--megabytes", "4", "--repeats", "9", "--json"]
            cluster = codecs_on_links.result_of(shaped_links.run(command, rate_mbit=rate, **how)[0], command)["cluster"]
            (folder / "real.toml").write_text(config)
            (folder / "simulated.toml").write_text(config + cluster)
            for number, (way, keys) in enumerate(WAYS.items()):
                def train(name, keys=keys):
                    sets = ["max-staleness=-1", f"push-every={options.push_every}", *keys]
                    return [program, "train", "--config", f"{folder}/{name}.toml", "--store", f"{folder}/store", "--out",
                            f"{folder}/{name}-{rate:g}-{number}", "--threads", "1", "--json",
                            *(word for each in sets for word in ("--set", f"parallel.{each}"))]

                done, _ = shaped_links.run(train("real"), machines=options.machines, rate_mbit=rate, **how)
                real = codecs_on_links.result_of(done, train("real"))
                command = [*train("simulated"), "--set", "parallel.world=simulated", "--set",
                           f"cluster.host.gflops={options.gflops}"]
                simulated = codecs_on_links.result_of(subprocess.run(command, **how), command)
                print(f"{rate:9g} {way:23} {real['frames_per_second']:8.0f} "
                      f"{staleness(folder / f'real-{rate:g}-{number}'):9.2f} {real['bytes_sent'] / 1e6:8.1f} "
                      f"{simulated['frames_per_second']:20.0f} {staleness(folder / f'simulated-{rate:g}-{number}'):9.2f}",
                      flush=True)


if __name__ == "__main__":
    main()
