"""Which torch a wheel needs: one that uses torch's C++ symbols serves the release that it was built against, and says so.

Its version gets a label (1.2.0+torch2.13.0.cpu) and its metadata require exactly that torch. A wheel on the stable ABI keeps
version and requirements: one file serves every torch.
"""

import re

import elf

# Mangled names with a namespace of torch in them, also as an argument of a template of the standard library.
TORCH_CXX = re.compile(r"_Z\w*N?K?(2at|3c10|5torch|6caffe2)")


def torch_symbols(contents: dict[str, bytes]) -> dict[str, list[str]]:
    """Library -> the C++ symbols of torch that it takes from another library."""
    found = {}
    for name, body in contents.items():
        if body.startswith(b"\x7fELF"):
            undefined = [symbol.name for symbol in elf.read(body).symbols if not symbol.defined]
            if symbols := sorted(filter(TORCH_CXX.match, undefined)):
                found[name] = symbols
    return found


def label(version: str, torch: str, cuda: str) -> str:
    """1.2.0 -> 1.2.0+torch2.13.0.cpu; a label that is there already stays in front."""
    built_for = f"torch{torch.partition('+')[0]}.{'cu' + cuda.replace('.', '') if cuda else 'cpu'}"
    return f"{version}{'.' if '+' in version else '+'}{built_for}"


def pin(contents: dict[str, bytes], version: str, torch: str, cuda: str) -> tuple[dict[str, bytes], str]:
    """(contents, version) that require exactly this torch."""
    (info,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    labelled, release = label(version, torch, cuda), torch.partition("+")[0]
    lines = contents[f"{info}/METADATA"].decode().split("\n")
    end = lines.index("") if "" in lines else len(lines)
    head = [
        line
        for line in lines[:end]
        if not re.match(r"Requires-Dist: torch\s*([\s<>=!~(;]|$)", line) or "extra ==" in line
    ]
    at = next(number for number, line in enumerate(head) if line.startswith("Version: "))
    head.insert(at + 1, f"Requires-Dist: torch=={release}")
    contents = contents | {f"{info}/METADATA": "\n".join([*head, *lines[end:]]).encode()}
    return rename(contents, labelled), labelled


def rename(contents: dict[str, bytes], version: str) -> dict[str, bytes]:
    """The contents of a wheel under another version: in METADATA and in the names of folders."""
    (info,) = {name.split("/")[0] for name in contents if ".dist-info/" in name}
    head, blank, rest = contents[f"{info}/METADATA"].decode().partition("\n\n")
    head = re.sub("^Version: .*$", f"Version: {version}", head, count=1, flags=re.MULTILINE)
    contents = contents | {f"{info}/METADATA": f"{head}{blank}{rest}".encode()}
    stem = info.removesuffix(".dist-info")
    renamed = f"{stem.rpartition('-')[0]}-{version}"
    parts = {f"{stem}.dist-info": f"{renamed}.dist-info", f"{stem}.data": f"{renamed}.data"}
    return {"/".join([parts.get(n.split("/")[0], n.split("/")[0]), *n.split("/")[1:]]): b for n, b in contents.items()}
