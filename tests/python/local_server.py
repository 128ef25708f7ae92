"""A server of a folder in this very process, so that whoever holds the interpreter's lock never gets an answer."""

import http.server
import pathlib
import threading


class LocalServer(http.server.ThreadingHTTPServer):
    """`address`; files with the text `held` in their names wait for the event `go`, and set `asked`."""

    daemon_threads = True

    def __init__(self, folder, held=""):
        self.folder, self.held, self.go, self.asked = pathlib.Path(folder), held, threading.Event(), threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that went away


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.server.held and self.server.held in self.path:
            self.server.asked.set()
            self.server.go.wait()
        data = (self.server.folder / self.path.lstrip("/")).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass
