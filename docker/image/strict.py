"""Strict readers of the texts that a wheel carries. What two readers might understand in two ways is refused.

Standard library only: the scripts on the host import this, too.
"""

import csv
import io
import json
import re
from typing import NamedTuple

# Line ends that some reader knows and another does not, and what terminals act on.
CONTROL = re.compile("^\ufeff|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
HEADER = re.compile(r"([A-Za-z][A-Za-z0-9-]*):(?: (.*))?")
HASH = re.compile("sha256=([A-Za-z0-9_-]{43})")
SIZE = re.compile("[0-9]{1,15}")
MAX_TEXT_BYTES = 64 << 20


class Refused(ValueError):
    """A file that nobody should have made; ``problems`` says why, a line for each reason."""

    def __init__(self, *problems: str):
        super().__init__(problems[0])
        self.problems = list(problems)


class Row(NamedTuple):
    """What RECORD says of a file; ``sha256`` as it stands there, in base64. Both are empty for RECORD itself."""

    sha256: str
    size: int | None


def text(data: bytes, name: str, upto: str = "") -> str:
    """UTF-8 without a byte order mark, with \\n or \\r\\n at the ends of lines and no other control character but tabs. What
    follows ``upto`` is left out."""
    if len(data) > MAX_TEXT_BYTES:
        raise Refused(f"{name} has {len(data)} bytes, no such file is that large")
    try:
        found = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise Refused(f"{name} is not UTF-8 (byte {error.start})") from None
    if upto:
        found = found.partition(upto)[0]
    if bad := CONTROL.search(found):
        raise Refused(f"{name} has the control character {bad[0]!a}")
    return found


def json_object(data: bytes, name: str) -> dict:
    """A JSON object. No key twice, as the first or the last would count; no NaN; no number that Python cannot hold."""

    def no_key_twice(pairs: list[tuple[str, object]]) -> dict:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Refused(f"{name} has a key twice in one object")
        return found

    def number(value: str) -> float:
        if abs(float(value)) == float("inf"):
            raise Refused(f"{name} has the number {value[:20]}, which is too large")
        return float(value)

    def constant(value: str) -> None:
        raise Refused(f"{name} has {value}, which is not JSON")

    try:
        found = json.loads(
            text(data, name), object_pairs_hook=no_key_twice, parse_float=number, parse_constant=constant
        )
    except Refused:
        raise
    except (ValueError, RecursionError) as error:
        raise Refused(f"{name} is not JSON that can be read: {type(error).__name__}: {one_line(error)}") from None
    if not isinstance(found, dict):
        raise Refused(f"{name} is not a JSON object")
    return found


def one_line(value: object, most: int = 120) -> str:
    """What others wrote, fit for a message: printable ASCII, not too long."""
    shown = ascii(str(value))[1:-1]
    return shown if len(shown) <= most else shown[:most] + "..."


def record_rows(data: bytes, name: str) -> dict[str, Row]:
    """RECORD: file -> its row. Every file once; sha256 and size for all but RECORD itself and its signatures."""
    found: dict[str, Row] = {}
    try:
        rows = list(csv.reader(io.StringIO(text(data, name), newline=""), strict=True))
    except csv.Error as error:
        raise Refused(f"{name} is not CSV: {one_line(error)}") from None
    for number, row in enumerate(rows, 1):
        if len(row) != 3:
            raise Refused(f"{name}, row {number}: expected `file,hash,size`, got {len(row)} fields")
        file, digest, size = row
        if file in found:
            raise Refused(f"file: RECORD names a file twice: {one_line(file)}")
        if (digest, size) == ("", ""):
            found[file] = Row("", None)
            continue
        hashed = HASH.fullmatch(digest)
        if not hashed or not SIZE.fullmatch(size):
            raise Refused(f"{name}, row {number}: expected sha256=... and a size, got {one_line(f'{digest},{size}')}")
        found[file] = Row(hashed[1], int(size))
    return found


def headers(data: bytes, name: str) -> dict[str, list[str]]:
    """The header fields of METADATA or WHEEL by lower-case name. A line is a field, or continues the one above."""
    found: dict[str, list[str]] = {}
    values: list[str] = []
    for number, line in enumerate(text(data, name, "\n\n").removesuffix("\n").split("\n"), 1):
        if not line:
            raise Refused(f"{name}:{number} is empty, and nothing is above it")
        if line[0] in " \t":
            if not values:
                raise Refused(f"{name}:{number} continues no field")
            values[-1] += "\n" + line.strip()
            continue
        field = HEADER.fullmatch(line)
        if not field:
            raise Refused(f"{name}:{number} is not `Field: value`: {one_line(line, 60)}")
        values = found.setdefault(field[1].lower(), [])
        values.append((field[2] or "").strip())
    return found


def single(fields: dict[str, list[str]], field: str, name: str, required: bool = True) -> str:
    """The value of a field that may occur once."""
    values = fields.get(field.lower(), [])
    if len(values) > 1 or (required and not values):
        raise Refused(f"{name} has {len(values)} fields {field}, expected one")
    return values[0] if values else ""
