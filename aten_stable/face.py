"""The Python module in front of a library: `import theirs._C` as before, with no CPython symbol in the library.

`_face.py` is the module; each library gets a copy with its own name in it, so that a wheel needs nothing of this package.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("_face.py")


def face(library: str, by_driver: dict[int, str] | None = None) -> str:
    """The text of the module in front of a library of this name, which lies beside it.

    by_driver: of CUDA libraries, {the oldest driver, as CUDA counts: 13000 for 13.0: name}.
    """
    text = TEMPLATE.read_text()
    for marker, own in (
        ('LIBRARY = "library.so"', f'LIBRARY = "{library}"'),
        ("BY_DRIVER = {}", f"BY_DRIVER = {by_driver or {}}"),
    ):
        assert text.count(marker) == 1
        text = text.replace(marker, own)
    return text


def write_face(path: Path, library: str, by_driver: dict[int, str] | None = None) -> None:
    path.write_text(face(library, by_driver))
