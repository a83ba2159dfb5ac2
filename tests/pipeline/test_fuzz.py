"""What the fuzzers start from and what they once found, as ordinary tests: tests/fuzz/corpus."""

import base64

import archive
import elf
import fatbin
import loadable
import pytest
import seeds
import targets
from conftest import FUZZ


def cases():
    for target, inputs in seeds.seeds().items():
        yield from (pytest.param(target, data, id=f"{target}-seed-{number}") for number, data in enumerate(inputs))
    for path in sorted(FUZZ.glob("corpus/*.txt")):
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        yield from (
            pytest.param(path.stem, base64.b64decode(line), id=f"{path.stem}-{n}") for n, line in enumerate(lines)
        )


@pytest.mark.parametrize(("target", "data"), cases())
def test_a_known_input(target, data):
    """It is accepted or refused; whatever else a target raises fails here."""
    assert targets.TARGETS[target](data) is None


@pytest.mark.parametrize(
    ("target", "module", "name"),
    [
        ("elf", elf, "read"),
        ("fatbin", fatbin, "read_units"),
        ("wheel", archive, "Archive"),
        ("index", targets.index, "write_index"),
    ],
)
def test_a_target_lets_a_crash_through(target, module, name, monkeypatch):
    def crash(*_, **__):
        raise IndexError("out of range")

    monkeypatch.setattr(module, name, crash)
    with pytest.raises(IndexError, match="out of range"):
        for data in seeds.seeds()[target]:
            targets.TARGETS[target](data)


def test_the_seeds_are_good_ones():
    """A fuzzer that starts from what is refused at once finds nothing."""
    units = seeds.unit((2, 80, True))
    library = elf.read(seeds.elf(units))
    assert list(loadable.check_library("x", library)) == []
    assert (library.needed, library.search, library.versions) == (
        ["libc.so.6"],
        ["/opt/evil"],
        [("libc.so.6", "GLIBC_2.14")],
    )
    assert [(s.name, s.exported, s.version) for s in library.symbols[1:]] == [
        ("memcpy", False, "GLIBC_2.14"),
        ("leaked", True, ""),
    ]
    assert fatbin.units(library) == fatbin.read_units(units)
    archive.Archive(seeds.zipped(seeds.contents()))
