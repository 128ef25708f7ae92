"""What lies in packaging/serve: each file by the program that reads it, and nginx with the server behind it.

Checks whose program is not installed (systemd, caddy, nginx, openssl) are skipped.

Usage: packaging_test.py SOURCE-TREE PROGRAM
"""

import contextlib
import copy
import http.client
import json
import os
import pathlib
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

import serving
from serving import WORDS, form, words_of

try:
    import kubernetes_validate
    import yaml
except ImportError:
    print("skipped: the Python package kubernetes-validate is missing (scripts/venv)")
    sys.exit(77)

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "packaging/serve"
HOST = "speech.example.org"


def program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if found is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return found


def run(*command, **more):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=100, **more)


class Files(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)

    def takes_options(self, words):
        """The program knows the options that a file starts it with."""
        result = run(serving.system.PROGRAM, *words, "--check-options")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotEqual(run(serving.system.PROGRAM, *words, "--no-such", "--check-options").returncode, 0)

    def verified(self, text):
        (self.root / "antiphon-serve.service").write_text(text.replace("/usr/bin/antiphon", serving.system.PROGRAM))
        result = run(program("systemd-analyze"), "verify", self.root / "antiphon-serve.service")
        lines = [line for line in result.stderr.splitlines() if "antiphon-serve.service" in line]
        return result.returncode, lines

    def test_systemd_unit(self):
        text = (FOLDER / "antiphon-serve.service").read_text()
        self.assertEqual(self.verified(text), (0, []))
        self.assertTrue(self.verified(text.replace("Restart=on-failure", "Restart=sometimes"))[1])
        start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
        self.takes_options(shlex.split(start.partition("=")[2])[1:])

    def test_caddyfile(self):
        caddy = program("caddy")
        environment = dict(os.environ, SPEECH_HOST=HOST, HOME=str(self.root), XDG_DATA_HOME=str(self.root))
        file = self.root / "Caddyfile"
        text = (FOLDER / "Caddyfile").read_text()
        for changed, status in ((text, 0), (text.replace("reverse_proxy", "reverse_prox"), 1)):
            file.write_text(changed)
            result = run(caddy, "validate", "--adapter", "caddyfile", "--config", file, env=environment)
            self.assertEqual(result.returncode, status, result.stderr)

    def test_compose_file(self):
        services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
        self.takes_options(shlex.split(services["antiphon"]["command"]))
        backend = (FOLDER / "Caddyfile").read_text().partition("reverse_proxy ")[2].split()[0]
        self.assertEqual(backend, "antiphon:2700")
        self.assertIn("./Caddyfile:/etc/caddy/Caddyfile:ro", services["caddy"]["volumes"])

    def test_kubernetes_manifest(self):
        documents = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
        self.assertEqual([document["kind"] for document in documents], ["Deployment", "Service"])
        for document in documents:
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        deployment, service = documents
        pod = deployment["spec"]["template"]
        container = pod["spec"]["containers"][0]
        self.takes_options(container["args"])
        self.assertEqual(service["spec"]["selector"], pod["metadata"]["labels"])
        self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                         {volume["name"] for volume in pod["spec"]["volumes"]})
        for change in (lambda c: c.update(livenesProbe={}), lambda c: c["resources"]["limits"].update(cpu=[2]),
                       lambda c: c.pop("name")):
            broken = copy.deepcopy(deployment)
            change(broken["spec"]["template"]["spec"]["containers"][0])
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


class BehindNginx(serving.ServedTest):
    options = ("--hosts", HOST)

    def setUp(self):
        nginx, openssl = program("nginx"), program("openssl")
        folder = self.root / "nginx"
        folder.mkdir()
        made = run(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
                   "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", folder / "privkey.pem", "-out",
                   folder / "fullchain.pem")
        self.assertEqual(made.returncode, 0, made.stderr)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        site = (FOLDER / "nginx.conf").read_text()
        for old, new in (("/etc/letsencrypt/live/speech.example.org", str(folder)),
                         ("listen 443", f"listen {self.port}"),
                         ("127.0.0.1:2700", f"127.0.0.1:{self.server.port}")):
            self.assertIn(old, site)
            site = site.replace(old, new)
        (folder / "site.conf").write_text(site)
        places = "".join(f"{name}_temp_path {folder}/{name};"
                         for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log warn; events {{}}\n"
            f"http {{ access_log off; {places} include {folder}/site.conf; }}\n")
        command = [nginx, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        tested = run(*command, "-t")
        self.assertEqual(tested.returncode, 0, tested.stderr)
        self.nginx = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self.addCleanup(lambda: (self.nginx.terminate(), self.nginx.wait(timeout=60)))
        self.trust = ssl.create_default_context(cafile=folder / "fullchain.pem")
        self.assertTrue(self.server.wait_for(self.is_up), "nginx does not listen")

    def is_up(self):
        with contextlib.suppress(OSError), self.plain():
            return True
        return False

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def get(self, method, path, data=None, **headers):
        connection = http.client.HTTPSConnection(HOST, timeout=60)
        connection.sock = self.trust.wrap_socket(self.plain(), server_hostname=HOST)
        with contextlib.closing(connection):
            connection.request(method, path, data, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers

    def test_page_websocket_and_events_come_through(self):
        status, body, _ = self.get("GET", "/")
        self.assertEqual((status, body), (200, self.server.get("/")[1]))
        self.assertEqual(self.get("GET", "/metrics")[0], 403, "for machines that look after it")

        with serving.ws.connect(f"wss://{HOST}/", sock=self.plain(), ssl=self.trust, server_hostname=HOST,
                                compression=None, proxy=None, open_timeout=60) as connection:
            connection.send(self.raw)
            said = words_of(json.loads(connection.recv(timeout=60)))
            connection.send('{"eof" : 1}')
            self.assertEqual(said + words_of(json.loads(connection.recv(timeout=60))), WORDS)

        data, content_type = form((("model", "tones"), ("stream", "true")), (self.root / "call.wav").read_bytes())
        status, body, headers = self.get("POST", "/v1/audio/transcriptions", data, Content_Type=content_type)
        self.assertEqual((status, headers["Content-Type"]), (200, "text/event-stream"))
        events = [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line]
        self.assertEqual("".join(event["delta"] for event in events[:-1]), " ".join(WORDS))
        self.assertEqual(events[-1], {"type": "transcript.text.done", "text": " ".join(WORDS)})


if __name__ == "__main__":
    serving.main()
