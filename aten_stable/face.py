"""The Python module in front of a library: `import theirs._C` as before, with no CPython symbol in the library.

`_face.py` is the module; each library gets a copy with its own name in it, so that a wheel needs nothing of this package.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("_face.py")


def face(library: str) -> str:
    """The text of the module in front of a library of this name, which lies beside it."""
    text = TEMPLATE.read_text()
    marker = 'LIBRARY = "library.so"'
    assert text.count(marker) == 1
    return text.replace(marker, f'LIBRARY = "{library}"')


def write_face(path: Path, library: str) -> None:
    path.write_text(face(library))
