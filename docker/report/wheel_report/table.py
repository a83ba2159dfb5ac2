"""The report as text for people."""

import textwrap

WIDTH = 118


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def lines(label: str, text: str, indent: int = 2, column: int = 16) -> list[str]:
    start = f"{'':{indent}}{label:<{column - indent}}"
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=" " * column, break_on_hyphens=False,
                         break_long_words=False) or [start.rstrip()]  # fmt: skip


def works_on(report: dict) -> list[str]:
    """One line for each verdict and reason of an axis."""
    found = []
    for axis, row in report["works_on"].items():
        groups: dict[tuple[str, str], list[str]] = {}
        for value, cell in row.items():
            groups.setdefault((cell["verdict"], cell["why"]), []).append(value)
        label = axis
        for (verdict, why), values in groups.items():
            sign = {"works": "+", "fails": "-", "not known": "?"}[verdict]
            found += lines(label, f"{sign} {' '.join(values)}   ({why})")
            label = ""
    return found


def library(part: dict) -> list[str]:
    facts = [part["kind"], megabytes(part["bytes"])]
    if part["machine"] != "x86_64":
        facts.append(part["machine"])
    if part["glibc"]:
        facts.append(f"glibc {part['glibc']['version']} ({part['glibc']['forced_by']})")
    if part["torch"] != "none":
        named = part["torch_symbols"][0][:60] if part["torch_symbols"] else f">= {part['torch_floor']}"
        facts.append(f"torch: {part['torch']} ABI ({named})")
    if part["cpython"] != "none":
        named = part["cpython_symbols"][0] if part["cpython_symbols"] else f">= {part['cpython_floor']}"
        facts.append(f"CPython: {part['cpython']} ABI ({named})")
    if part["sm"] or part["ptx"]:
        ptx = f", PTX {' '.join(part['ptx'])} of CUDA {' '.join(part['cuda'])}" if part["ptx"] else ", no PTX"
        facts.append(f"device code: sm {' '.join(part['sm']) or 'none'}{ptx}")
    asked = {name: who for name, who in part["needs"].items() if who != "system"}
    if asked:
        facts.append("needs " + ", ".join(f"{name} ({who})" for name, who in asked.items()))
    return lines(part["file"], "", 2, 2) + textwrap.wrap(
        "; ".join(facts), WIDTH, initial_indent="      ", subsequent_indent="      ", break_on_hyphens=False
    )


def render(report: dict) -> str:
    wheel = report["wheel"]
    out = [
        f"{wheel['file']}, {megabytes(wheel['bytes'])}",
        "",
        "Works on (+ yes, - no, ? only a trial tells)",
        *works_on(report),
    ]
    if report["floors"]:
        out += ["", "Oldest that its symbols allow, and what forces it (its tags may ask for more)"]
        for name, floor in report["floors"].items():
            out += lines(name, f"{floor['version']}   ({floor['forced_by']})")
    if report["libraries"]:
        out += ["", f"Libraries (their versioned symbols allow {report['symbols_allow'] or 'no manylinux tag'})"]
        for part in report["libraries"]:
            out += library(part)
    out += ["", "Size, unpacked"]
    for part, size in report["sizes"].items():
        out += lines(megabytes(size), part)
    if report["largest"]:
        out += lines(
            "largest", ", ".join(f"{part['file']} {megabytes(part['bytes'])}" for part in report["largest"][:3])
        )
    for title, found in (
        ("Problems", report["problems"]),
        ("May differ in the next build", report["reproducibility_hazards"]),
    ):
        if found:
            out += ["", title, *(line for text in found for line in lines("-", text, 2, 4))]
    out += ["", "Known vulnerabilities", *lines("", report["vulnerabilities"], 2, 2)]
    for name, parts in report["sboms"].items():
        out += lines("", f"{name}: {', '.join(parts)}", 2, 2)
    return "\n".join(out)
