"""Why a build failed, out of a long log: the compiler's own message, and one line that says what to do. Standard library only."""

import os
import re
from pathlib import Path

import target

MESSAGE = re.compile(
    r"^(?P<where>[^\s:()][^:()]*)(?::\d+(?::\d+)?|\(\d+\)): *(?P<kind>fatal error|error|note|warning|catastrophic error)\b"
)
CONTEXT = re.compile(r"^(In file included from|\s+from |\s*\d* \||[^\s:][^:]*: In |[^\s:][^:]*: At |\s+\^|\s+\S.*|$)")
LINKER = re.compile(r"(undefined reference to|cannot find -l|ld: )")
MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
MISSING_REQUIREMENTS = re.compile(r"^ERROR (?:Missing|Unmet) dependencies\b.*:$", re.MULTILINE)
KEPT_LINES = 60
FRAMES = ("TIP pass --env-dir", "ERROR Backend subprocess exited")  # the frontend on what it started, as in short.sh


# A compiler's command with ninja's count, a linker's command, and what build backends say of their steps.
COMPILE = re.compile(rb"(\[\d+/\d+\] ).* -c (?:\S*/source/|/project/(?:project/)?)?(\S+)")
LINK = re.compile(rb"\S*(?:g\+\+|gcc|c\+\+|cc|clang)(?:-[0-9.]+)? (?:.* )?-shared .*-o (\S+)")
STEP = re.compile(rb"\[\d+/\d+\] (?!.*\s-[A-Za-z])|building |copying|\* |-- (Build|The|Config)|Successfully|warning: ")


def progress(line: bytes) -> bytes | None:
    """What is worth showing of a line while a build runs: `[n/N] file` instead of the command that compiles it, None for nothing."""
    if match := COMPILE.match(line):
        return match[1] + match[2] + b"\n"
    if match := LINK.match(line):
        return b"link " + match[1] + b"\n"
    return line if STEP.match(line) else None


def compiler_messages(log: str) -> list[str]:
    """The errors of the compiler with the lines that belong to them, and nothing of the programs that started it."""
    lines, kept, pending = log.splitlines(), [], []
    inside = False
    for line in lines:
        match = MESSAGE.match(line)
        if match:
            inside = match["kind"] not in ("warning",)
            if inside:
                kept += [*pending, line]
            pending = []
        elif LINKER.search(line):
            kept.append(line)
            inside, pending = False, []
        elif re.match(r"In file included from|\s+from |[^\s:]+: In |[^\s:]+: At ", line):
            inside = False
            pending.append(line)
        elif inside and re.match(r"\s", line) and CONTEXT.match(line):
            kept.append(line)
        else:
            inside, pending = False, []
    return list(dict.fromkeys(kept)) if len(kept) > KEPT_LINES else kept


def say_last(error: Exception) -> int | str:
    """For sys.exit: the error, or 1 when it goes to the file that BUILD_ERROR names, whose reader prints it."""
    if not os.environ.get("BUILD_ERROR"):
        return f"error: {error}"
    Path(os.environ["BUILD_ERROR"]).write_text(f"{error}\n")
    return 1


def last_lines(log: str, count: int) -> list[str]:
    return [line for line in log.splitlines() if line.strip() and not line.startswith(FRAMES)][-count:]


def tried_to_reach(hosts: list[str]) -> str:
    return (
        f"the build tried to reach {', '.join(dict.fromkeys(hosts))}, and a build has no network: put what it downloads into the "
        "project, or into a package that [build-system] requires names"
    )


# What a build says when something is not there -> what to do about it. {0} is what the expression finds.
ABSENT = (
    "{0} is not in the image: bring it in the project, or by a package that build-requires in [tool.customops-build] names (cmake, "
    "ninja, ... are such); ENGINE=host takes what this machine has"
)
REMEDIES = [
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (r"CUDA_HOME environment variable is not set|No such file or directory: '(?:\S*/)?nvcc'",
         "setup.py asks for CUDA's compiler: VARIANT=cuda, for `make lock PROJECT=...` as for `make wheel PROJECT=...`"),
        (r"detected CUDA version \([\d.]+\) mismatches the version that was used to compile\s+PyTorch \((\d+)\.",
         'the locked torch is for CUDA {0}: cuda = "{0}" in [tool.customops-build]'),
        (r"fatal error: c10/cuda/impl/cuda_cmake_macros\.h",
         "the locked torch is built without CUDA: choose torches in [tool.customops-build] that pip finds with it, then `make lock PROJECT=... VARIANT=cuda`"),
        (r"No matching distribution found for (\S+)",
         "pip was to install {0}, and a build has no network: name it in build-requires of [tool.customops-build], then `make lock PROJECT=...`"),
        (r"Could not open requirements file: .*?'([^']+)'", "{0} is not in the project: bring it, or leave it out of [tool.cibuildwheel]"),
        (r"(?:setuptools[-_]scm|setuptools_scm|vcs[-_]versioning) was unable to detect version|unable to detect version for",
         "the version comes from git, and this folder is no checkout with a tag: build a checkout, or a source distribution, which "
         'says its version; or environment = {{ SETUPTOOLS_SCM_PRETEND_VERSION = "1.2.3" }} in [tool.cibuildwheel]'),
        (r"[Cc]an't find Rust compiler|error: can't find cargo|rustc(?:, version \S+)? is not installed", ABSENT.replace("{0}", "a Rust compiler")),
        (r"fatal error: ([\w./+-]+): No such file or directory", ABSENT),
        (r"cannot find (-l[\w.+-]+)", ABSENT),
        (r"CMake Error[^\n]*\n\s+Could NOT find (\w+)", ABSENT),
        (r'Could not find a package configuration file provided by\s+"(\w+)"', ABSENT),
        (r"""ERROR: (?:C\+?\+? )?(?:shared or static library|[Dd]ependency) ["']?([\w.+-]+)["']? not found""", ABSENT),
        (r"ERROR: Program '?([\w.+-]+)[^\n]* not found", ABSENT),
        (r"(?m)FileNotFoundError: .*No such file or directory: '([\w+-]+)'$", ABSENT),
        (r"(?m)^(?:sh|bash): (?:\d+: |line \d+: )?([\w./+-]+): (?:command )?not found", ABSENT),
    )
]  # fmt: skip


def remedy(log: str) -> str | None:
    for pattern, said in REMEDIES:
        if match := pattern.search(log):
            return said.format(*match.groups())
    return None


CANNOT_RUN = re.compile(
    r"([^\s:'\"]+): cannot execute binary file|Exec format error(?:: '([^']+)')?|Can not run test applications in this cross env"
)


def ran_for_another_machine(log: str) -> str | None:
    """What a build for another machine has compiled and then started or imported here."""
    if not target.is_another():
        return None
    module = missing[1].rpartition(".")[2] if (missing := MISSING_MODULE.search(log)) else ""
    if module and re.search(rf"\b{module}\.(?:[\w-]*{target.machine()}[\w-]*|abi3)\.so", log):
        what = missing[1]
    elif match := CANNOT_RUN.search(log):
        what = match[1] or match[2] or "a program"
    else:
        return None
    return (
        f"the build runs {what}, which it has compiled for {target.machine()} and this machine cannot run: leave that step out "
        "where CMAKE_CROSSCOMPILING (CMake) or meson.is_cross_build() is true, or let a script do it that needs nothing compiled"
    )


def explain(log: str, reached: list[str], step: str = "the project's build backend") -> str:
    """One line; prints the compiler's messages or the end of the log before it. step: what ran last."""
    messages = compiler_messages(log)
    if reached:
        print("\n".join(last_lines(log, 8)))
        return tried_to_reach(reached)
    if said := ran_for_another_machine(log):
        print("\n".join(last_lines(log, 8)))
        return said
    if missing := MISSING_MODULE.search(log):
        return (
            f"the build imports {missing[1]}, which no requirement brings: add it to [build-system] requires, or to "
            "build-requires in [tool.customops-build], then `make lock PROJECT=...`"
        )
    if missing := MISSING_REQUIREMENTS.search(log):
        wanted = re.findall(r"^\t(\S.*)$", log[missing.end() :], re.MULTILINE)
        return f"the lock does not hold what the build requires ({'; '.join(wanted)}): `make lock PROJECT=...`"
    if "Killed signal terminated program" in log or "killed by signal 9" in log.lower():
        return "the compiler was killed, most likely for memory: MAX_JOBS=1, or more memory for the container"
    if messages:
        print("\n".join(messages[:KEPT_LINES]))
        if said := remedy("\n".join(messages)):
            return said
        files = [match["where"] for line in messages if (match := MESSAGE.match(line)) and "error" in match["kind"]]
        return f"{', '.join(dict.fromkeys(files)) or 'the link'} failed to compile: the compiler's message is above"
    print("\n".join(last_lines(log, 30)))
    return remedy(log) or f"{step} failed, see above; `make shell PROJECT=...` opens the container that it ran in"
