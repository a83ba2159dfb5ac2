"""Enough of S3 for tests: one bucket, `objects`, in memory; who signs with another key is refused."""

import http.server
import time
import urllib.parse
from email.utils import formatdate
from xml.sax.saxutils import escape

BUCKET, KEY_ID, SECRET = "objects", "AKIDEXAMPLE", "hushhush"


class FakeS3(http.server.ThreadingHTTPServer):
    """values: key -> (bytes, when they were stored); asked: (method, key); sparse: leaves out names and times."""

    daemon_threads = True

    def __init__(self):
        self.values, self.asked, self.sparse = {}, [], False
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code):
        self.say(status, f"<Error><Code>{code}</Code><Message>{code}, it says</Message></Error>".encode())

    def answer(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        values = self.server.values
        self.server.asked.append((self.command, key))
        if f"Credential={KEY_ID}/" not in self.headers.get("Authorization", ""):
            self.refuse(403, "InvalidAccessKeyId")
        elif bucket != BUCKET:
            self.refuse(404, "NoSuchBucket")
        elif not key:
            prefix = dict(urllib.parse.parse_qsl(url.query)).get("prefix", "")
            found = "".join(
                "<Contents/>" if self.server.sparse else f"<Contents><Key>{escape(name)}</Key></Contents>"
                for name in sorted(values)
                if name.startswith(prefix)
            )
            self.say(200, f"<ListBucketResult>{found}</ListBucketResult>".encode())
        elif self.command == "PUT":
            if self.headers.get("If-None-Match") == "*" and key in values:
                return self.refuse(412, "PreconditionFailed")
            values[key] = data, time.time()
            self.say(200, ETag='"0"')
        elif self.command == "DELETE":
            values.pop(key, None)
            self.say(204)
        elif key not in values:
            self.refuse(404, "NoSuchKey")
        else:
            since = {} if self.server.sparse else {"Last_Modified": formatdate(values[key][1], usegmt=True)}
            self.say(200, values[key][0], **since)

    do_GET = do_PUT = do_HEAD = do_DELETE = answer
