"""A bucket of S3, or of another server that speaks its protocol, as a store of objects: `make wheel CACHE=s3://bucket/prefix`.

botocore, in an environment of its own that only this CACHE makes, finds server, region and credentials by its own rules: variables
AWS_..., profiles, roles. Names below the prefix are those of a folder, so `aws s3 sync` makes one of the other.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import re
import sys
import time
from collections.abc import Iterator

from beside import MOST_PLAN, MOST_RUN, MOST_RUNS, PLAN_SECONDS, RUN, Runs, read_numbers
from common import Failure, virtual_environment
from strict import one_line

SECONDS_TO_CONNECT, SECONDS_TO_ANSWER, MOST_ATTEMPTS = 10, 20, 2  # ccache waits for 10 s, and compiles then
MOST_CONNECTIONS = 32
LARGEST = 512 * 1024 * 1024  # bytes of one object
ADDRESS = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([A-Za-z0-9._/-]{0,200}))?")
SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
ABSENT = {"404", "NoSuchKey"}
THERE_FIRST = {"PreconditionFailed", "ConditionalRequestConflict"}  # answers to IfNoneMatch


@functools.cache
def library():
    """botocore, from its locked wheels, which are for every Python."""
    (packages,) = virtual_environment("s3").parent.glob("lib/python*/site-packages")
    sys.path.insert(1, str(packages))
    import botocore.config
    import botocore.exceptions
    import botocore.session

    return botocore


@dataclasses.dataclass(frozen=True)
class S3(Runs):
    """A bucket that holds the objects."""

    name: str  # as the user gave it
    bucket: str
    prefix: str  # of every key: empty, or with a / at its end
    secrets: tuple[str, ...] = dataclasses.field(repr=False)  # of the environment; none: the library looks elsewhere
    known: dict[str, str] = dataclasses.field(
        default_factory=dict, repr=False
    )  # what was read of a run, which never changes

    @functools.cached_property
    def client(self):
        session = library().session.get_session()
        if self.secrets:
            session.set_credentials(*self.secrets)
        # Checksums of newer AWS servers are unknown to others, and ccache's objects have one of their own.
        config = library().config.Config(
            connect_timeout=SECONDS_TO_CONNECT, read_timeout=SECONDS_TO_ANSWER, max_pool_connections=MOST_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": MOST_ATTEMPTS},
            request_checksum_calculation="when_required", response_checksum_validation="when_required",
        )  # fmt: skip
        return session.create_client("s3", region_name=os.environ.get("AWS_REGION") or None, config=config)

    @contextlib.contextmanager
    def called(self, otherwise: set[str] = frozenset()) -> Iterator[None]:
        """Says which bucket failed; answers with one of these codes pass.

        Raises:
            Failure: the library cannot use it, or found no credentials.
        """
        errors = library().exceptions
        try:
            yield
        except (OSError, ValueError, errors.BotoCoreError, errors.ClientError) as error:
            if code_of(error) in otherwise:
                return
            raise Failure(f"CACHE={self.name} cannot be used: {one_line(str(error), 300)}; {remedy(error)}") from error

    def get(self, key: str, most: int) -> tuple[bytes, float] | None:
        """(bytes, when they were stored: now, if the server does not say it); None if there are none, or too many."""
        with self.called(ABSENT):
            found = self.client.get_object(Bucket=self.bucket, Key=self.prefix + key)
            with contextlib.closing(found["Body"]) as body:
                data = body.read(most + 1)
            since = found["LastModified"].timestamp() if "LastModified" in found else time.time()
            return (data, since) if len(data) <= most else None
        return None

    def has(self, key: str) -> bool:
        with self.called(ABSENT):
            self.client.head_object(Bucket=self.bucket, Key=self.prefix + key)
            return True
        return False

    def put(self, key: str, data: bytes) -> None:
        with self.called():
            self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=data)

    def reply(self, request: list[bytes]) -> bytes:
        """The answer to one of ccache's commands, which relay.read_request() has let through, as a Redis server gives it."""
        name, digest = request[0].upper(), request[1].decode().partition(":")[2]
        key = f"{digest[:2]}/{digest[2:]}"
        if name == b"SET":
            self.put(key, request[2])
            return b"+OK\r\n"
        if name == b"EXISTS":
            return b":%d\r\n" % self.has(key)
        found = self.get(key, LARGEST)
        return b"$%d\r\n%s\r\n" % (len(found[0]), found[0]) if found else b"$-1\r\n"

    def runs(self) -> list[str]:
        folder = f"{self.prefix}compiles/"
        with self.called():
            found = self.client.list_objects_v2(Bucket=self.bucket, Prefix=folder, MaxKeys=2 * MOST_RUNS)
        names = (entry.get("Key", "").removeprefix(folder) for entry in found.get("Contents", ()))
        return sorted(name for name in names if RUN.fullmatch(name))[: 2 * MOST_RUNS]

    def texts(self) -> list[str]:
        runs = self.runs()
        with concurrent.futures.ThreadPoolExecutor(MOST_CONNECTIONS) as pool:
            for run, found in zip(runs, pool.map(self.text, runs), strict=True):
                self.known[run] = found
        return [self.known[run] for run in runs]

    def text(self, run: str) -> str:
        if run not in self.known:
            found = self.get(f"compiles/{run}", MOST_RUN)
            return found[0].decode(errors="replace") if found else ""
        return self.known[run]

    def write(self, run: str, text: str) -> None:
        self.put(f"compiles/{run}", text.encode())

    def remove(self, run: str) -> None:
        with self.called(ABSENT):
            self.client.delete_object(Bucket=self.bucket, Key=f"{self.prefix}compiles/{run}")

    def first(self, plan: str, durations: dict[str, float]) -> dict[str, float]:
        """The durations of whoever asked first, for a day: so that builders that start one after another divide alike."""
        key = f"plans/{plan}.json"
        found = self.get(key, MOST_PLAN)
        if found and time.time() - found[1] > PLAN_SECONDS:
            with self.called(ABSENT):
                self.client.delete_object(Bucket=self.bucket, Key=self.prefix + key)
        with self.called(THERE_FIRST):
            text = json.dumps(durations).encode()
            self.client.put_object(Bucket=self.bucket, Key=self.prefix + key, Body=text, IfNoneMatch="*")
        found = self.get(key, MOST_PLAN)
        return read_numbers(found[0].decode(errors="replace")) if found else {}


def code_of(error: Exception) -> str:
    """What an error answer of the server is called; empty if it is another error."""
    answer = getattr(error, "response", None)  # of a timeout it is None
    return str(answer.get("Error", {}).get("Code", "")) if isinstance(answer, dict) else ""


def remedy(error: Exception) -> str:
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or leave CACHE out"
    if code_of(error) in ("403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"):
        return "its credentials must let list, get, put and delete objects below the prefix; correct them, or leave CACHE out"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "name the certificates to trust in AWS_CA_BUNDLE, or leave CACHE out"
    return "correct it, AWS_ENDPOINT_URL or AWS_REGION, or leave CACHE out"


def parse_s3(wanted: str) -> S3:
    """CACHE=s3://bucket[/prefix]. Takes the secrets out of the environment, so that no child process has them.

    Raises:
        Failure: it is no such address, or half of a pair of secrets is set.
    """
    if "@" in wanted:
        raise Failure(
            "CACHE holds a user or password, which everybody would read: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
        )
    found = ADDRESS.fullmatch(wanted)
    folders = (found[2] or "").strip("/").split("/") if found else [".."]
    if {".", ".."} & set(folders) or (folders != [""] and "" in folders):
        raise Failure(f"CACHE must be s3://bucket or s3://bucket/prefix, of letters, digits and ._/-, got {wanted}")
    secrets = tuple(os.environ.pop(name, "") for name in SECRETS)
    if bool(secrets[0]) != bool(secrets[1]):
        raise Failure(
            "CACHE=s3:// needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of which one is set: set both, or neither"
        )
    prefix = "/".join(folders)
    return S3(wanted, found[1], f"{prefix}/" if prefix else "", secrets if secrets[0] else ())
