"""make wheel CACHE=s3://...: what a build reaches of a bucket, who sees its credentials, and what is said if it cannot be used."""

import os
import re
import socket
import socketserver
import threading
import time

import beside
import fake_s3
import object_store
import pytest
import relay
import s3_store
from common import Failure

DIGEST = "0a" * 20
KEY, STORED = (
    f"ccache:{DIGEST}".encode(),
    f"team/x/{DIGEST[:2]}/{DIGEST[2:]}",
)  # ccache's name, and the key in the bucket


class Mute(socketserver.ThreadingTCPServer):
    """Answers each connection with the same bytes, and keeps it open."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, answer):
        self.answer = answer
        super().__init__(("127.0.0.1", 0), _Mute)


class _Mute(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(10_000)
        self.request.sendall(self.server.answer)
        self.request.recv(10_000)


@pytest.fixture
def ask(s3, tmp_path):
    """ask(*words): what a build gets to see of the bucket; None if it was hung up."""
    running = relay.Relay(tmp_path / "socket", object_store.parse("s3://objects/team/x"))
    running.start()

    def send(*words):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "socket"))
            client.settimeout(10)
            client.sendall(object_store.spelled(list(words)))
            return client.recv(4096) or None

    send.relay = running
    yield send
    running.stop()


def test_what_a_build_stores_another_finds(ask, s3):
    assert ask(b"GET", KEY) == b"$-1\r\n"
    assert ask(b"EXISTS", KEY) == b":0\r\n"
    assert ask(b"SET", KEY, b"an\r\nobject") == b"+OK\r\n"
    assert ask(b"GET", KEY) == b"$10\r\nan\r\nobject\r\n"
    assert ask(b"EXISTS", KEY) == b":1\r\n"
    assert list(s3.values) == [STORED], "below the prefix, with the name that ccache gives it in a folder"
    assert (ask.relay.received > 10, ask.relay.sent, ask.relay.refused, ask.relay.failed) == (True, 10, 0, 0)


@pytest.mark.parametrize(
    "words", [[b"GET", b"ccache:../../secrets"], [b"SET", b"compiles/x.json", b"x"], [b"DEL", KEY], [b"KEYS", b"*"]]
)
def test_a_build_reaches_nothing_but_objects(ask, s3, words):
    assert ask(*words) is None
    assert (s3.asked, ask.relay.refused) == ([], 1)


def test_an_object_that_is_too_large_is_not_there(ask, monkeypatch):
    monkeypatch.setattr(s3_store, "LARGEST", 3)
    ask(b"SET", KEY, b"long")
    assert ask(b"GET", KEY) == b"$-1\r\n"


def test_what_fails_during_a_build_is_counted(ask, s3, monkeypatch):
    monkeypatch.setattr(fake_s3, "KEY_ID", "another")
    assert ask(b"SET", KEY, b"x") == b"-ERR it failed\r\n"
    assert re.search(
        r", 1 requests failed \(CACHE=s3://objects/team/x cannot be used: .*InvalidAccessKeyId", ask.relay.stop()
    )


def test_credentials_stay_outside(s3, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token")
    cache = object_store.parse("s3://objects")
    assert not set(s3_store.SECRETS) & os.environ.keys(), "children of make would have them"
    assert cache.durations() == {}
    assert s3.asked == [("GET", "")]
    assert not any(word in repr(cache) for word in (fake_s3.KEY_ID, fake_s3.SECRET, "a-token"))


def test_other_credentials_are_found_as_the_library_finds_them(s3, monkeypatch, tmp_path):
    (tmp_path / "credentials").write_text(f"[team]\naws_access_key_id = {fake_s3.KEY_ID}\naws_secret_access_key = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "team")
    for name in s3_store.SECRETS:
        monkeypatch.delenv(name, raising=False)
    assert object_store.parse("s3://objects").durations() == {}


def test_a_bucket_that_cannot_be_used_is_one_line(s3, monkeypatch):
    def said(address="s3://objects"):
        with pytest.raises(Failure) as failure:
            object_store.parse(address).durations()
        assert str(failure.value).isprintable() and fake_s3.SECRET not in str(failure.value)
        return str(failure.value)

    def given(**variables):
        for name, value in ({"ACCESS_KEY_ID": fake_s3.KEY_ID, "SECRET_ACCESS_KEY": fake_s3.SECRET} | variables).items():
            monkeypatch.setenv(f"AWS_{name}", value)

    assert re.search(
        r"CACHE=s3://another cannot be used: .*NoSuchBucket.*; correct it, AWS_ENDPOINT_URL or", said("s3://another")
    )
    given(ACCESS_KEY_ID="AKOTHER")
    assert re.search(r"InvalidAccessKeyId.*; its credentials must let list, get, put and delete objects", said())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        given(ENDPOINT_URL=f"http://127.0.0.1:{free.getsockname()[1]}")
        assert re.search(r"Could not connect to the endpoint .*leave CACHE out", said())
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    assert re.search(
        r"Unable to locate credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", said()
    )


def test_a_certificate_that_is_not_trusted_is_told_from_a_wrong_address(s3, monkeypatch):
    assert s3_store.remedy(OSError("CERTIFICATE_VERIFY_FAILED")).startswith(
        "name the certificates to trust in AWS_CA_BUNDLE"
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url.replace("http:", "https:"))
    with pytest.raises(Failure, match=r"SSL.*; correct it, AWS_ENDPOINT_URL"):
        object_store.parse("s3://objects").durations()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nno XML <<",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
    ],
)
def test_a_server_that_does_not_answer_as_s3_is_one_line(s3, monkeypatch, answer):
    monkeypatch.setattr(s3_store, "SECONDS_TO_ANSWER", 0.3)
    monkeypatch.setattr(s3_store, "MOST_ATTEMPTS", 1)
    with Mute(answer) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{running.server_address[1]}")
        with pytest.raises(
            Failure, match=r"CACHE=s3://objects cannot be used: .*; correct it, AWS_ENDPOINT_URL"
        ) as failure:
            object_store.parse("s3://objects").durations()
        running.shutdown()
    assert str(failure.value).isprintable()


@pytest.mark.parametrize(
    "wanted",
    ["s3://", "s3://Bucket", "s3://b", "s3://objects/../x", "s3://objects/a//b", "s3://objects/a b", "s3://objects?x=1", "s3://objects:80/x"],
)  # fmt: skip
def test_refuses_another_address(wanted):
    with pytest.raises(Failure, match=r"CACHE must be s3://bucket or s3://bucket/prefix"):
        object_store.parse(wanted)


def test_secrets_in_the_address_are_refused(monkeypatch):
    with pytest.raises(Failure, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead") as failure:
        object_store.parse("s3://AKID:hidden@objects")
    assert "hidden" not in str(failure.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with pytest.raises(Failure, match="of which one is set"):
        object_store.parse("s3://objects")


def test_a_prefix_is_a_folder():
    for address, start in (
        ("s3://objects", ""),
        ("s3://objects/", ""),
        ("s3://objects/a", "a/"),
        ("s3://objects/a/b/", "a/b/"),
    ):
        assert object_store.parse(address).prefix == start


def test_a_bucket_puts_what_builds_left_together(s3, monkeypatch):
    monkeypatch.setattr(beside, "MOST_RUNS", 3)
    cache = object_store.parse("s3://objects/team/x")
    for number in range(5):
        cache.keep({f"x: {number}.o": number + 1.0}, {DIGEST: f"builder{number}"})
        assert len(cache.runs()) <= 3
    s3.values["team/x/compiles/README"] = s3.values["team/y/compiles/x.json"] = b"another's", 0.0
    assert cache.durations() == {f"x: {number}.o": number + 1.0 for number in range(5)}
    assert sorted(cache.builders()[DIGEST]) == [f"builder{number}" for number in range(5)]
    before = len(s3.asked)
    cache.peaks()
    assert len(s3.asked) == before + 1, "runs never change: what was read of one is not read again"


def test_a_server_that_leaves_things_out_is_no_crash(ask, s3):
    s3.sparse = True
    ask(b"SET", KEY, b"x")
    s3.values["team/x/compiles/x.json"] = b"{}", 0.0
    assert ask(b"GET", KEY) == b"$1\r\nx\r\n"
    assert ask.relay.server.durations() == {}


def test_a_plan_of_a_bucket_holds_for_a_day(s3):
    cache = object_store.parse("s3://objects")
    cache.first("plan", {"a.o": 1.0})
    s3.values["plans/plan.json"] = s3.values["plans/plan.json"][0], 0.0
    assert cache.first("plan", {"a.o": 3.0}) == {"a.o": 3.0}
    assert cache.first("plan", {"a.o": 4.0}) == {"a.o": 3.0}
    s3.values["plans/plan.json"] = b"[" * 100_000, time.time()
    assert cache.first("plan", {"a.o": 9.0}) == {}
