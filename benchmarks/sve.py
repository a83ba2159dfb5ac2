"""Instructions for one output of bias_act's loops over float32 on aarch64: NEON, as csrc/ compiles them, and SVE.

    python benchmarks/sve.py [--compiler CXX] [--torch FOLDER] [--json FILE]      writes results/other/sve.json

Compiles csrc/cpu/bias_act.cpp in three ways, and counts the instructions of each activation's best vector loop. Nothing
runs. Needs a g++ for aarch64 with its objdump, and the headers of torch for aarch64; no torch and no customops of this machine.
"""

import argparse
import datetime
import json
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "csrc/cpu/bias_act.cpp"
SVE = "-march=armv8.2-a+sve"
WAYS = {  # flags, and the float32 of a register
    "neon": ([], 4),
    "sve128": ([SVE, "-msve-vector-bits=128"], 4),
    "sve256": ([SVE, "-msve-vector-bits=256"], 8),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.*)>:$")
INSTRUCTION = re.compile(r"^ *(?P<at>[0-9a-f]+):\t(?P<text>.*)$")
BACK = re.compile(r"(?:b\.\w+|cbn?z)\s.*?(?P<to>[0-9a-f]+) <")
VECTOR = re.compile(r"\bv\d+\.4s\b|\bz\d+\.s\b")
STORES = {"str\tq": 1, "stur\tq": 1, "stp\tq": 2, "st1w": 1}  # registers that an instruction stores
LEAST_VECTOR_INSTRUCTIONS = 4  # of a loop that computes


def functions(listing: str) -> dict[str, dict[int, str]]:
    """Name -> address -> instruction, of what objdump prints."""
    found: dict[str, dict[int, str]] = {}
    current: dict[int, str] = {}
    for line in listing.splitlines():
        if head := FUNCTION.match(line):
            current = found.setdefault(head["name"], {})
        elif (one := INSTRUCTION.match(line)) and one["text"].strip():
            current[int(one["at"], 16)] = one["text"]
    return found


def stored(loop: list[str]) -> int:
    """Registers of outputs that a turn of a loop stores: an unrolled one has several."""
    return sum(number for line in loop for start, number in STORES.items() if line.startswith(start))


def best_loop(body: dict[int, str]) -> float | None:
    """Instructions for a register of outputs, of the loop that takes the fewest and computes with vectors; None without."""
    lengths = []
    for at, text in body.items():
        jump = BACK.match(text)
        if jump and int(jump["to"], 16) in body and int(jump["to"], 16) < at:
            loop = [line for address, line in body.items() if int(jump["to"], 16) <= address <= at]
            computing = sum(bool(VECTOR.search(line)) for line in loop)
            if computing >= LEAST_VECTOR_INSTRUCTIONS and (registers := stored(loop)):
                lengths.append(len(loop) / registers)
    return min(lengths, default=None)


def loops(listing: str) -> dict[str, float]:
    """Activation -> instructions for a register of outputs in its loop over float32, forward."""
    found = {}
    for name, body in functions(listing).items():
        activation = re.search(r"elements<0, (?:customops::)?(\w+)", name)
        if activation and "float" in name and "run_" in name and (length := best_loop(body)):
            found[activation[1].lower()] = length
    return found


def listing(compiler: str, torch: Path, flags: list[str]) -> str:
    own = [line for line in (ROOT / "csrc/flags.txt").read_text().splitlines() if not line.startswith("#")]
    with tempfile.NamedTemporaryFile(suffix=".o") as made:
        command = [compiler, *own, *flags, "-fPIC", f"-I{torch / 'include'}", "-c", SOURCE, "-o", made.name]
        subprocess.run(command, check=True)
        objdump = re.sub(r"g\+\+(-\d+)?$", "objdump", compiler)
        return subprocess.check_output([objdump, "-d", "-C", "--no-show-raw-insn", made.name], text=True)


def rows(counted: dict[str, dict[str, float]]) -> list[dict]:
    """One for each activation: instructions an output, by way."""
    return [
        {"activation": name, **{way: round(counted[way][name] / lanes, 2) for way, (_, lanes) in WAYS.items()}}
        for name in counted["neon"]
        if all(name in counted[way] for way in WAYS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="aarch64-linux-gnu-g++")
    parser.add_argument("--torch", type=Path, default=ROOT / ".cache/aarch64/site/torch")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/other/sve.json")
    args = parser.parse_args()
    counted = {way: loops(listing(args.compiler, args.torch, flags)) for way, (flags, _) in WAYS.items()}
    version = subprocess.check_output([args.compiler, "-dumpfullversion"], text=True).strip()
    facts = {
        "about": "benchmarks/sve.py: instructions for an output of bias_act's loops over float32 on aarch64",
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "compiler": f"g++ {version}",
    }
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows(counted))
    args.json.write_text(json.dumps(facts, indent=1).removesuffix("\n}") + f',\n "rows": [\n{lines}\n ]\n}}\n')
    print(args.json.read_text())


if __name__ == "__main__":
    main()
