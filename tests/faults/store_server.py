"""A server of files with the faults that networks have, for tests of frame stores on servers.

Usage: store_server.py FOLDER [CERTIFICATE KEY]     (prints its port; ends when its standard input does)

http://127.0.0.1:PORT/FAULT/FILE serves FOLDER/FILE. Faults: plain; missing (404); denied (403); private (401 without the
name "reader" and the password "sesame"); busy (index and first
shard: 500, then 503, then fine); dead (always 500); cut (each file breaks off in the middle, once); cut-no-range (the
same, by a server that sends whole files alone); stall (index and first shard stop in the middle, once); stall-shards (shards alone, for good); frozen (stops for good); slow (0.3 s later); wrong (a byte of each shard is another); long (a byte more); loop
(redirects for ever); moved (redirects to plain); away (redirects to a file of the machine); grown (index.bin is larger).
/s3/BUCKET/FILE wants requests signed with Signature Version 4, which it computes by the published rules.
/log: the requests so far, as JSON. It serves the same as a proxy to any host.
"""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse

FOLDER = pathlib.Path(sys.argv[1])
KEY_ID, SECRET, TOKEN, REGION = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a-token/+=", "eu-central-1"
BASIC = "Basic " + base64.b64encode(b"reader:sesame").decode()
FEW = ("index.bin", "shard-00000.frames")
LOG = []
TIMES = collections.Counter()
LOCK = threading.Lock()


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_error(handler):
    """What is wrong with the request's signature, as S3 would say it; "" for nothing.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
    """
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?SignedHeaders=([^,]+), "
                         r"?Signature=([0-9a-f]{64})", handler.headers.get("Authorization", ""))
    if not match:
        return "AccessDenied"
    key_id, day, region, signed, signature = match.groups()
    if key_id != KEY_ID:
        return "InvalidAccessKeyId"
    if region != REGION:
        return "AuthorizationHeaderMalformed"
    names = signed.split(";")
    for name in ["host", *(n.lower() for n in handler.headers.keys() if n.lower().startswith("x-amz-"))]:
        if name not in names:
            return f"HeadersNotSigned {name}"
    if handler.headers.get("x-amz-security-token", "") != TOKEN:
        return "InvalidToken"
    if "x-amz-content-sha256" not in names:
        return "MissingSecurityHeader"
    path, _, query = handler.path.partition("?")
    headers = "".join(f"{n}:{' '.join(handler.headers[n].split())}\n" for n in sorted(names))
    payload = handler.headers["x-amz-content-sha256"]
    canonical = "\n".join(["GET", urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"), query, headers,
                           ";".join(sorted(names)), payload])
    date = handler.headers["x-amz-date"]
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = sign(sign(sign(sign(("AWS4" + SECRET).encode(), day), region), "s3"), "aws4_request")
    expected = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return "" if hmac.compare_digest(expected, signature) else "SignatureDoesNotMatch"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        # Who takes this for a proxy asks for whole addresses.
        proxied_host, path = re.fullmatch(r"(?:http://([^/]+))?(/.*)", urllib.parse.unquote(self.path)).groups()
        if path == "/log":
            with LOCK:
                return self.answer(200, json.dumps(LOG).encode())
        fault, _, name = path.lstrip("/").partition("/")
        with LOCK:
            TIMES[path] += 1
            times = TIMES[path]
            LOG.append({"path": path, "range": self.headers.get("Range", ""), "proxy_to": proxied_host or ""})
        if fault == "s3":
            error = signature_error(self)
            if error:
                body = f"<?xml?><Error><Code>{error.split()[0]}</Code><Message>{error}.</Message></Error>"
                return self.answer(403, body.encode())
            name = name.partition("/")[2]
        if fault == "private" and self.headers.get("Authorization") != BASIC:
            return self.answer(401, b"who is it?", [("WWW-Authenticate", 'Basic realm="speech"')])
        refusals = {"missing": 404, "denied": 403, "dead": 500}
        if fault in refusals:
            return self.answer(refusals[fault], b"<html>an error</html>")
        if fault == "busy" and name in FEW and times <= 2:
            return self.answer(500 if times == 1 else 503, b"busy", [("Retry-After", "0")])
        if fault in ("loop", "moved", "away"):
            where = {"loop": self.path, "moved": f"/plain/{name}", "away": f"file://{FOLDER}/{name}"}[fault]
            return self.answer(302, b"elsewhere", [("Location", where)])
        file = FOLDER / name
        if not file.is_file():
            return self.answer(404)
        return self.send_file(file, fault, times)

    def send_file(self, file, fault, times):
        data = file.read_bytes()
        if fault == "wrong" and file.suffix == ".frames":
            data = data[:700] + bytes([data[700] ^ 1]) + data[701:]
        if fault == "long" or (fault == "grown" and file.name == "index.bin"):
            data += b"x"
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(match.group(1)) if match and fault != "cut-no-range" else 0
        if first >= len(data) > 0:
            return self.answer(416)
        self.send_response(206 if first > 0 else 200)
        if first > 0:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        end = len(data)
        cut = fault in ("cut", "cut-no-range") or (fault == "stall" and file.name in FEW)
        if cut and times == 1 or fault == "frozen" or (
                fault == "stall-shards" and file.suffix == ".frames"):
            end = len(data) // 2
        if fault == "slow":
            time.sleep(0.3)
        self.wfile.write(data[first:end])
        self.wfile.flush()
        if end == len(data):
            return None
        if fault.startswith("stall") or fault == "frozen":
            time.sleep(600)
        self.close_connection = True
        return self.connection.shutdown(2) if not isinstance(self.connection, ssl.SSLSocket) else None


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if len(sys.argv) > 2:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
