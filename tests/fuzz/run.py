"""One fuzzer: python tests/fuzz/run.py TARGET FOLDER [options of libFuzzer]. docker/fuzz.py starts it.

FOLDER keeps what reached new code. A finding is added to tests/fuzz/corpus/TARGET.txt, which tests/pipeline/test_fuzz.py runs.
"""

import base64
import contextlib
import io
import sys
import traceback
from pathlib import Path

import atheris

HERE = Path(__file__).parent
INSTRUMENTED = ["archive", "check_wheel", "elf", "fatbin", "index", "loadable", "lockfile", "provenance", "record", "rootfs", "strict", "wheelfile", "tarfile"]  # fmt: skip
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docker"), str(HERE.parents[1] / "docker/image")]
with atheris.instrument_imports(include=INSTRUMENTED):
    import targets


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*targets.seeds.seeds()[name], *corpus(name)]):
        (folder / f"seed-{number}").write_bytes(seed)
    target = targets.TARGETS[name]

    def once(data: bytes) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                target(data)
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {str(error)[:80]!a}, {Path(last.filename).name}:{last.lineno}"
            with (HERE / f"corpus/{name}.txt").open("a") as file:
                file.write(f"# {said}\n{base64.b64encode(data).decode()}\n")
            raise

    options = ["-timeout=30", "-rss_limit_mb=3000", f"-artifact_prefix={folder.parent}/", *sys.argv[3:]]
    atheris.Setup([sys.argv[0], str(folder), *options], once)
    atheris.Fuzz()


def corpus(name: str) -> list[bytes]:
    path = HERE / f"corpus/{name}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [base64.b64decode(line) for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    main()
