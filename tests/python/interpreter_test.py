"""The library beside the interpreter: its lock, its end, Ctrl-C and forks. What could hang or abort runs in a process of
its own."""

import os
import pathlib
import subprocess
import sys
import unittest

import package
from small_system import must
from system import SystemTest

antiphon = package.optional("antiphon")

BEFORE = """
import faulthandler, logging, os, pathlib, signal, sys, threading, time
faulthandler.dump_traceback_later(100, exit=True)
import numpy as np
import antiphon
from local_server import LocalServer
root = pathlib.Path(sys.argv[1])

def interrupted(call, after=0.3, clock=time.monotonic):
    '''Seconds that a call takes which a signal's handler ends.'''
    def interrupt(*_):
        raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, after)
    began = clock()
    try:
        call()
    except KeyboardInterrupt:
        return clock() - began
    raise AssertionError("it ended by itself")
"""


@package.need("antiphon")
class Interpreter(SystemTest):
    def said(self, script):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(
            [str(pathlib.Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
        # Since 3.12 Python warns of every fork beside other threads; what then works is what is tested.
        command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", BEFORE + script, str(self.root)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stderr + result.stdout)
        return result.stdout

    def need_servers(self):
        if "without libcurl" in must("doctor").stdout:
            self.skipTest("built without libcurl")

    def test_who_waits_for_a_server_lets_other_threads_run(self):
        self.need_servers()
        for question in ("labels(0)", "features(0)", "count_labels()", "moments()"):
            self.said(f"""
server = LocalServer(root / "store")
antiphon.FrameStore(server.address, cache=root / "cache {question}").{question}
""")

    def test_an_epoch_that_waits_for_a_server_can_be_left(self):
        self.need_servers()
        self.said("""
server = LocalServer(root / "store", held="shard")
store = antiphon.FrameStore(server.address, cache=root / "cache that waits")
epoch = store.minibatches(16, prefetch=4)
assert interrupted(lambda: next(epoch)) < 20
assert interrupted(lambda: store.features(0)) < 20
assert server.asked.is_set()
del epoch, store
server.go.set()
store = antiphon.FrameStore(server.address, cache=root / "cache that waits")
assert len(next(store.minibatches(16)).labels) == 16
""")

    def test_daemon_threads_stay_behind(self):
        daemon = """
def work():
    while True:
        {}
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
"""
        for call in ("for batch in antiphon.FrameStore(root / 'store').minibatches(16): pass",
                     "antiphon.train(root / 'store', root / 'daemon', network=[{'type': 'affine'}], log_steps=1,\n"
                     "                       schedule={'epochs': 1000}, on_metrics=len, resume=True)",
                     "antiphon.Recognizer(root / 'net/model.safetensors', root / 'graph')"):
            self.said(daemon.format(call))

    def test_an_interrupt_is_heard(self):
        self.said("""
lexicon = root / "many words.txt"
random = np.random.default_rng(1)
lexicon.write_text("".join(f"{word} {' '.join(word)}\\n" for word in
                           ("".join(random.choice(list("abcdefgh"), 8)) for _ in range(2000))))
assert interrupted(lambda: antiphon.train_g2p(lexicon, root / "none.g2p", iterations=100, threads=1)) < 10
assert not (root / "none.g2p").exists()
front_end = antiphon.FrontEnd.standard("mfcc", 8000, frame_shift_ms=2)
samples = np.ones(8000000, np.float32)
# Seconds of the processor, of which other programs take none. The signal may still be heard late, but not each time.
clock = time.process_time
began = clock()
front_end(samples, 8000)
whole = clock() - began
assert any(interrupted(lambda: front_end(samples, 8000), whole / 10, clock) < 0.8 * whole for _ in range(5))
aligner = antiphon.Aligner(root / "net/model.safetensors", root / "lexicon.txt")
samples = np.zeros(8000 * 60, np.float32)
def align():
    try:
        aligner.align(samples, "A B " * 60, 8000)
    except antiphon.InputError:
        pass  # it need not be found
assert interrupted(lambda: [align() for _ in range(1000)]) < 20
""")

    def test_an_interrupt_ends_what_makes_models_better(self):
        self.said("""
model, training = root / "net/model.safetensors", {"schedule": {"epochs": 100000}, "data": {"minibatch": 64}}
for name, work in (("svd", antiphon.Compressor(model, "svd", store=root / "store", train=training)),
                   ("kld", antiphon.Adapter(model, store=root / "store", train=training))):
    assert interrupted(lambda: work.run(root / name), after=1) < 20
    assert not (root / name / "model.safetensors").exists()
    assert not (root / name / "adapted.safetensors").exists()
""")

    def test_a_forked_child_has_the_log(self):
        self.assertIn("child antiphon: the phrase 'zebra'", self.said("""
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="child %(name)s: %(message)s")
child = os.fork()
if child == 0:
    heard = threading.Event()
    logging.getLogger().addFilter(lambda record: heard.set() or True)
    logging.getLogger().handlers[0].addFilter(lambda record: heard.set() or True)
    antiphon.Recognizer(root / "net/model.safetensors", root / "graph", hotwords={"zebra": 2.0})
    assert heard.wait(60)
    sys.stdout.flush()
    time.sleep(0.2)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""))

    def test_a_store_on_a_server_is_opened_anew_after_a_fork(self):
        self.need_servers()
        self.said("""
server = LocalServer(root / "store")
store = antiphon.FrameStore(server.address, cache=root / "cache of the parent")
child = os.fork()
if child == 0:
    try:
        store.features(0)
    except antiphon.UsageError as error:
        assert "forked" in str(error), error
        del store
        os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert store.features(0).size
""")


if __name__ == "__main__":
    package.main()
