"""python -m aten_stable: include | cmake | torch | flags | build | face | scan | schemas."""

import argparse
import sys
from pathlib import Path

from aten_stable import INCLUDE, __version__


def torch_folder() -> Path:
    """Without importing torch: its headers are all that is needed."""
    import importlib.util

    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise SystemExit("error: torch is not installed here: pip install torch (2.10 or newer; any build, CPU too)")
    return Path(found.origin).parent


def schemas() -> int:
    """Compares the schemas that the headers rely upon with the torch that is installed."""
    import torch

    from aten_stable.scan import table

    changed = 0
    for text in table():
        name, _, overload = text.partition("(")[0].partition(".")
        try:
            found = torch._C._get_schema(f"aten::{name}", overload)
        except RuntimeError:
            found = None
        if str(torch._C.parse_schema(f"aten::{text}")) != str(found):
            changed += 1
            print(f"aten::{name}: expected {text}, torch {torch.__version__} has {found}")
    print(f"torch {torch.__version__}: {changed} of {len(table())} schemas differ")
    return 1 if changed else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m aten_stable", description="ATen's headers on LibTorch's stable ABI"
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("include", help="the folder to put before torch's own include folder")
    commands.add_parser("cmake", help="the folder of aten_stableConfig.cmake: -Daten_stable_DIR=...")
    commands.add_parser("torch", help="the folder of the torch that is compiled against; writes <ATen/ops/...> for it")
    for name, text in (
        ("flags", "compiler flags for a module"),
        ("face", "the text of the Python file in front of a library that another build system makes"),
        ("build", "compile C++ and CUDA sources into a module"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("module", help="what Python imports: theirs._C")
        if name == "build":
            command.add_argument("sources", nargs="+", type=Path)
            command.add_argument("--folder", type=Path, default=Path(), help="where theirs/_C.py goes (default: here)")
            cuda = "a toolkit and architectures: /opt/cuda13:90,100+PTX; one library for each toolkit"
            command.add_argument("--cuda", action="append", default=[], help=cuda)
            command.add_argument("--option", action="append", default=[], help="for the compiler: --option=-fopenmp")
    scan = commands.add_parser("scan", help="what sources use: covered, through the dispatcher, uncovered")
    scan.add_argument("path", type=Path, help="a file or a folder")
    scan.add_argument("--all", action="store_true", help="list what is covered, too")
    commands.add_parser("schemas", help="compare the table of ATen's schemas with the torch installed here")
    arguments = parser.parse_args()
    if arguments.command == "include":
        print(INCLUDE)
    elif arguments.command == "cmake":
        print(INCLUDE.with_name("cmake"))
    elif arguments.command == "face":
        from aten_stable.face import face

        print(face(f"lib{arguments.module.rpartition('.')[2]}.so"), end="")
    elif arguments.command == "schemas":
        return schemas()
    elif arguments.command == "scan":
        from aten_stable.scan import report

        return report(arguments.path, arguments.all)
    else:
        from aten_stable.build import build, flags, headers, toolkit

        if arguments.command == "torch":
            headers(torch_folder())
            print(torch_folder())
        elif arguments.command == "flags":
            print(*flags(arguments.module, torch_folder()))
        else:
            cuda = tuple(map(toolkit, arguments.cuda))
            print(build(arguments.module, arguments.sources, arguments.folder, torch_folder(), arguments.option, cuda))
    return 0


if __name__ == "__main__":
    sys.exit(main())
