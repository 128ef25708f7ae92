"""The page with the microphone, in a real browser whose microphone plays a recording.

Skipped where no Chromium is installed (Debian's package chromium). With ANTIPHON_SCREENSHOTS=FOLDER, pictures of the page
are left there: light, dark, on a phone's width.

Usage: page_test.py SOURCE-TREE PROGRAM
"""

import base64
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import serving
from serving import WORDS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    print("skipped: no Chromium is installed")
    sys.exit(77)


class Browser:
    """One page of a Chromium, driven by the DevTools protocol."""

    def __init__(self, recording, language="en"):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                   "--remote-debugging-port=0", f"--user-data-dir={self.folder.name}", f"--lang={language}",
                   f"--accept-lang={language}", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                   "--autoplay-policy=no-user-gesture-required", f"--use-file-for-fake-audio-capture={recording}%noloop",
                   "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "DevTools listening on" in line:
                port = line.split("//")[1].split("/")[0].rpartition(":")[2]
                break
        else:
            raise AssertionError("the browser did not start")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self.stack = contextlib.ExitStack()
        self.connection = self.stack.enter_context(serving.ws.connect(
            page["webSocketDebuggerUrl"], max_size=None, compression=None, proxy=None, open_timeout=60))
        self.numbers = itertools.count(1)
        self.errors = []
        self("Runtime.enable")
        self("Log.enable")

    def __call__(self, method, **parameters):
        number = next(self.numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.connection.recv(timeout=100))
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(message["params"]["exceptionDetails"])
            if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
                self.errors.append(message["params"]["entry"])
            if message.get("id") == number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]

    def evaluate(self, script):
        result = self("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait_for(self, script, milliseconds=60000):
        return self.evaluate("""new Promise(resolve => {
            const until = Date.now() + %d;
            const look = () => {
              const value = (() => { return %s; })();
              if (value) resolve(value); else if (Date.now() > until) resolve(false); else setTimeout(look, 50);
            };
            look();
          })""" % (milliseconds, script))

    def open(self, url):
        self("Page.enable")
        self("Page.navigate", url=url)
        if not self.wait_for("document.readyState === 'complete' && document.getElementById('model') && "
                             "document.getElementById('model').options.length"):
            raise AssertionError(f"{url} did not load: {self.errors}")

    def key(self, code, key):
        for kind in ("keyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, code=code, key=key, text=key if kind == "keyDown" else "")

    def picture(self, name):
        folder = os.environ.get("ANTIPHON_SCREENSHOTS")
        if folder:
            data = self("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
            pathlib.Path(folder, f"{name}.png").write_bytes(base64.b64decode(data))

    def close(self):
        self.stack.close()
        self.process.kill()
        self.process.wait(timeout=60)
        self.process.stderr.close()
        self.folder.cleanup()


SAID = "[...document.querySelectorAll('#text .word')].map(w => w.textContent)"


class Page(serving.ServedTest):
    def browser(self, **more):
        browser = Browser(self.root / "call.wav", **more)
        self.addCleanup(browser.close)
        return browser

    def test_hears_the_microphone_and_shows_words(self):
        browser = self.browser()
        browser("Emulation.setDeviceMetricsOverride", width=1000, height=800, deviceScaleFactor=1, mobile=False)
        browser.open(self.server.url("/"))
        browser.picture("empty")
        browser.evaluate("document.getElementById('talk').click()")
        self.assertTrue(browser.wait_for("document.getElementById('talk').getAttribute('aria-pressed') === 'true'"))
        self.assertTrue(browser.wait_for(f"{SAID}.length >= {len(WORDS)}"), browser.errors)
        browser.picture("listening")
        browser.evaluate("document.getElementById('talk').click()")
        self.assertTrue(browser.wait_for("document.getElementById('talk').getAttribute('aria-pressed') === 'false'"))
        self.assertEqual(browser.evaluate(SAID), WORDS)
        self.assertEqual(browser.evaluate("[document.getElementById('status').className, "
                                          "document.getElementById('status').textContent]"), ["", "Ready"])
        # Confidences are shown, and a click tells what else a word could be.
        self.assertRegex(browser.evaluate("document.querySelector('#text .word').getAttribute('aria-label')"),
                         r"^A, \d+ % sure$")
        browser.evaluate("document.querySelector('#text .word').click()")
        self.assertTrue(browser.evaluate("document.querySelectorAll('.others li').length"))
        self.assertEqual(browser.evaluate("document.querySelector('#text .word').getAttribute('aria-expanded')"), "true")
        browser.picture("light")
        browser("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        browser.picture("dark")
        browser("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 360, "nothing sticks out")
        browser.evaluate("document.getElementById('settings').open = true")
        self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 360, "nothing sticks out")
        browser.picture("phone")
        self.assertEqual(browser.errors, [])

    def test_keyboard_language_and_recordings(self):
        browser = self.browser(language="de")
        browser.open(self.server.url("/"))
        self.assertEqual(browser.evaluate("[document.documentElement.lang, document.getElementById('talk').innerText]"),
                         ["de", "Zuhören"])
        browser.key("Space", " ")
        self.assertTrue(browser.wait_for(f"{SAID}.length >= 2"), browser.errors)
        browser.key("Space", " ")
        self.assertTrue(browser.wait_for("document.getElementById('talk').getAttribute('aria-pressed') === 'false'"))
        browser.evaluate("document.getElementById('clear').click()")
        self.assertEqual(browser.evaluate(SAID), [])
        node = browser("DOM.getDocument")["root"]["nodeId"]
        node = browser("DOM.querySelector", nodeId=node, selector="#file")["nodeId"]
        browser("DOM.setFileInputFiles", nodeId=node, files=[str(self.root / "call.wav")])
        self.assertTrue(browser.wait_for(f"{SAID}.length >= {len(WORDS)}"), browser.errors)
        self.assertEqual(browser.evaluate(SAID), [word["word"] for event in self.listen() for word in event["words"]])
        self.assertEqual(browser.errors, [])

    def test_sends_hotwords_and_the_devices_rate(self):
        browser = self.browser()
        browser.open(self.server.url("/"))
        browser.evaluate("""(() => {
            window.said = [];
            const send = WebSocket.prototype.send;
            WebSocket.prototype.send = function(data) {
              window.said.push(typeof data === "string" ? JSON.parse(data) : data.byteLength);
              return send.call(this, data);
            };
            document.getElementById("hotwords").value = "A B, B";
          })()""")
        browser.evaluate("document.getElementById('talk').click()")
        self.assertTrue(browser.wait_for("said.filter(m => m > 0).length >= 3"), browser.errors)
        rate = browser.evaluate("new AudioContext().sampleRate")
        config = browser.evaluate("said[0].config")
        self.assertEqual((config["sample_rate"], config["hotwords"]), (rate, ["A B", "B"]))
        # A tenth of a second of 16 bits, in whole blocks of an AudioWorklet.
        self.assertIn(browser.evaluate("said[1]") / 2 - round(rate / 10), range(128))
        self.assertEqual(browser.errors, [])

    def test_everything_has_a_name(self):
        browser = self.browser()
        browser.open(self.server.url("/"))
        nameless = browser.evaluate("""[...document.querySelectorAll('button, input, select, textarea, [role=meter]')]
            .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() ||
                           (e.labels && e.labels.length && e.labels[0].textContent.trim())))
            .map(e => e.outerHTML)""")
        self.assertEqual(nameless, [])
        self.assertEqual(browser.evaluate("performance.getEntriesByType('resource').map(r => new URL(r.name).host)"
                                          ".filter(h => h && h !== location.host)"), [], "nothing from elsewhere")


if __name__ == "__main__":
    serving.main()
