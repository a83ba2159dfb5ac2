"""The Python module in front of a library: `import theirs._C` as before, with no CPython symbol in the library.

`_face.py` is the module; each library gets a copy with its own name in it, so that a wheel needs nothing of this package. In
front of CUDA libraries, the copy holds `_cuda_library.py`, too, which chooses one of them.
"""

import json
from pathlib import Path

TEMPLATE = Path(__file__).with_name("_face.py")
CHOICE = Path(__file__).with_name("_cuda_library.py")
MARKER = 'LIBRARY = "library.so"'


def face(library: str) -> str:
    """The text of the module in front of a library of this name, which lies beside it."""
    return filled(f'LIBRARY = "{library}"')


def cuda_face() -> str:
    """The text of the module in front of libraries like lib_C.cuda12.so, beside which _C.cuda.json lies."""
    return filled(f"{CHOICE.read_text()}\n\nLIBRARY = _cuda_library(Path(__file__))\n")


def filled(own: str) -> str:
    text = TEMPLATE.read_text()
    assert text.count(MARKER) == 1
    return text.replace(MARKER, own)


def held(architectures: tuple[str, ...], major: int, minor: int) -> dict:
    """Of one CUDA library, for _C.cuda.json: what a toolkit of this version puts into it for ("80", "90+PTX")."""
    return {
        "machine_code": [int(entry.removesuffix("+PTX")) for entry in architectures],
        "ptx": [int(entry.removesuffix("+PTX")) for entry in architectures if entry.endswith("+PTX")],
        "driver": 1000 * major,
        "driver_for_ptx": 1000 * major + 10 * minor,
    }


def write_face(path: Path, library: str) -> None:
    path.write_text(face(library))


def write_cuda_face(path: Path, libraries: dict[str, dict]) -> None:
    """Writes path, which is theirs/_C.py, and _C.cuda.json beside it: {"cuda12": held(...)}."""
    path.write_text(cuda_face())
    path.with_suffix(".cuda.json").write_text(json.dumps(libraries, indent=1) + "\n")
