"""The generated blocks of README.md and docs/*.md: tables, and sentences with numbers. `BLOCKS` names them all."""

import itertools
import re
from collections.abc import Iterable

import results
from results import OURS, farm_model, geometric_mean, machine

COMPUTES = {
    "add2": "`a + b`",
    "axpy": "`alpha * x + y`",
    "bias_act": "bias, activation, gain and clamp in one pass",
    "depthwise_conv2d": "convolution of each channel with its own kernel",
    "flatten_copy": "a row-major copy of any strides",
    "upfirdn2d": "upsample, pad, filter and downsample in one pass",
}
SLOW = 0.95  # of torch's speed: below it, a case counts as slower
BUCKETS = (0, 8, 32, 128, 512, float("inf"))  # microseconds of torch's best


def unique(values: Iterable) -> list:
    return list(dict.fromkeys(values))


def number(value: float) -> str:
    """Two digits below ten, else whole numbers."""
    return f"{value:.2f}" if value < 1.095 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def table(head: list[str], rows: list[list[str]], right: int = 1) -> str:
    """Markdown; columns from `right` on hold numbers."""
    line = ["---" if column < right else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, line, *rows))


def machines(entries: Iterable[tuple[str, dict]]) -> str:
    """`H200, driver ..., torch ...: what, what (date), what (date); ...`."""
    found: dict[str, dict[str, list[str]]] = {}
    for what, facts in entries:
        where = machine(facts).removesuffix(f", {facts['date']}")
        found.setdefault(where, {}).setdefault(facts["date"], []).append(what)
    return "; ".join(
        f"{where}: " + ", ".join(f"{', '.join(unique(what))} ({date})" for date, what in dates.items())
        for where, dates in found.items()
    )


def ops() -> str:
    """An op a line, with typical and worst speed-up on each kind of device."""
    found = results.benchmarks()
    lines = []
    for op in sorted({result.op for result in found}):
        cells = [f"`{op}`", COMPUTES[op]]
        for kind in ("cuda", "cpu"):
            speedups = [row.speedup for r in found if (r.op, r.device) == (op, kind) for row in r.rows]
            cells.append(f"{number(geometric_mean(speedups))} / {number(min(speedups))}" if speedups else "not timed")
        lines.append(cells)
    for kind, column in (("cuda", 2), ("cpu", 3)):
        ratios = [case["ratio"] for run in results.sweeps() if results.kind(run) == kind for case in run["cases"]]
        if ratios:
            if lines[-1][0] != "random problems":
                lines.append(
                    ["random problems", "`depthwise_conv2d`, shapes drawn at random", "not timed", "not timed"]
                )
            lines[-1][column] = f"{number(geometric_mean(ratios))} / {number(min(ratios))}"
    measured = [(r.op, r.facts) for r in found] + [("random problems", run) for run in results.sweeps()]
    return (
        table(["op", "computes", "GPU: typical / worst", "CPU: typical / worst"], lines, right=2)
        + "\n\nSpeed relative to the fastest of torch, `torch.compile` and cuDNN on the same input: geometric mean over all cases / slowest case. "
        + "2 means twice as fast. The rows of an op are its listed benchmark cases; the last row shows what happens off that list. "
        + f"Measured on {machines(measured)}."
    )


def random_problems() -> str:
    """One line a sweep and direction."""
    lines, runs = [], results.sweeps() + results.sweeps(benchmark=True)
    for run in runs:
        for way in unique(map(results.direction, run["cases"])):
            ratios = [case["ratio"] for case in run["cases"] if results.direction(case) == way]
            slow = sum(ratio < SLOW for ratio in ratios)
            cells = [str(len(ratios)), number(geometric_mean(ratios)), number(min(ratios)), str(slow)]
            mode = ", benchmark mode" * run.get("benchmark", False)
            lines.append([f"{results.device(run)}, seed {run['seed']}{mode}", way, *cells])
    head = ["sweep", "direction", "cases", "times as fast, geometric mean", "least", f"below {SLOW}"]
    measured = machines((f"seed {run['seed']}", run) for run in runs)
    return f"{table(head, lines, right=2)}\n\n{measured}."


def by_duration() -> str:
    """Where the time of torch's best falls: small calls are another matter than large ones."""
    lines = []
    for kind, name in (("cuda", "GPU"), ("cpu", "CPU")):
        cases = [case for run in results.sweeps() if results.kind(run) == kind for case in run["cases"]]
        for low, high in itertools.pairwise(BUCKETS):
            ratios = [case["ratio"] for case in cases if low <= results.torchs_best(case) < high]
            if ratios:
                slow = sum(ratio < SLOW for ratio in ratios)
                between = f"{low} to {high} us" if high != BUCKETS[-1] else f"{low} us and more"
                lines.append([f"{name}, {between}", str(len(ratios)), number(geometric_mean(ratios)), str(slow)])
    return table(["torch's best takes", "cases", "times as fast, geometric mean", f"below {SLOW}"], lines)


def slow_classes(kind: str = "cuda", count: int = 10) -> str:
    """The classes of problems with the most cases below SLOW."""
    cases = [case for run in results.sweeps() if results.kind(run) == kind for case in run["cases"]]
    lines = []
    for key in unique((case["class"], results.direction(case)) for case in cases):
        ratios = [case["ratio"] for case in cases if (case["class"], results.direction(case)) == key]
        slow = sum(ratio < SLOW for ratio in ratios)
        if slow:
            lines.append(
                (
                    slow / len(ratios),
                    [*key, str(len(ratios)), str(slow), number(geometric_mean(ratios)), number(min(ratios))],
                )
            )
    lines = [cells for _, cells in sorted(lines, key=lambda line: -line[0]) if int(cells[2]) >= 5][:count]
    head = ["layers as of", "direction", "cases", f"below {SLOW}", "times as fast, geometric mean", "least"]
    return table(head, lines, right=2)


def slower_share(kind: str) -> tuple[int, int]:
    ratios = [case["ratio"] for run in results.sweeps() if results.kind(run) == kind for case in run["cases"]]
    return sum(ratio < SLOW for ratio in ratios), len(ratios)


def slower() -> str:
    """Sentences for the list of limits."""
    parts = []
    for kind, name in (("cuda", "the GPU"), ("cpu", "the CPU")):
        slow, count = slower_share(kind)
        if count:
            parts.append(f"{slow} of {count} on {name} ({100 * slow / count:.1f} %)")
    short = [case for run in results.sweeps() for case in run["cases"] if results.torchs_best(case) < BUCKETS[1]]
    slow, count = sum(case["ratio"] < SLOW for case in short), len(short)
    where = "; ".join(unique(machine(run) for run in results.sweeps()))
    return (
        f"- `depthwise_conv2d` is slower than the fastest of torch, `torch.compile` and cuDNN, by more than {100 * (1 - SLOW):.0f} %, for some shapes: of problems drawn at "
        f"random, for {' and '.join(parts)}. Of the calls that take less than {BUCKETS[1]} us with torch, {slow} of {count} are slower. ({where})"
    )


def worst_rows() -> str:
    """Of every benchmark, the rows in which a peer is faster."""
    lines = []
    for result in results.benchmarks():
        slow = sorted((row for row in result.rows if row.speedup < SLOW), key=lambda row: row.speedup)
        for row in slow:
            peer = min(row.peers, key=row.peers.get)
            name = " ".join(filter(None, (row.case, row.dtype, row.format, row.direction)))
            lines.append([f"`{result.op}`, {results.device(result.facts)}", name, peer, number(row.speedup)])
    measured = machines((result.op, result.facts) for result in results.benchmarks())
    return f"{table(['op', 'case', 'faster', 'times as fast'], lines, right=3)}\n\n{measured}."


def far_from_floor(count: int = 12) -> str:
    """The rows of depthwise_conv2d on the GPU that are furthest from the floor."""
    (result,) = [r for r in results.benchmarks() if r.name == "depthwise_conv2d-cuda"]
    rows = sorted(result.rows, key=lambda row: -row.floors)[:count]
    lines = [
        [
            " ".join((row.case, row.dtype, row.format, row.direction)),
            number(row.us[OURS]),
            number(row.floors),
            number(row.speedup),
        ]
        for row in rows
    ]
    return f"{table(['case', 'us', 'x floor', 'times as fast'], lines)}\n\n{machine(result.facts)}."


def rows_of(result: results.Result) -> str:
    """Every row; those that differ only in direction share a line."""
    ways = unique(row.direction for row in result.rows)
    lines = []
    for key in unique((row.case, row.dtype, row.format) for row in result.rows):
        rows = [row for row in result.rows if (row.case, row.dtype, row.format) == key]
        rows.sort(key=lambda row: ways.index(row.direction))
        cells = [" / ".join(text(row) for row in rows) for text in (
            lambda row: number(row.us[OURS]), lambda row: number(row.floors), lambda row: number(row.speedup))]  # fmt: skip
        lines.append([" ".join(filter(None, key)), *cells])
    order = f" ({' / '.join(ways)})" if ways != [""] else ""
    return table([f"case{order}", "us", "x floor", "times as fast"], lines)


def benchmarks() -> str:
    """A section for each result: plot, machine, every row."""
    parts = []
    for result in results.benchmarks():
        slow = sum(row.speedup < SLOW for row in result.rows)
        title = f"{result.op} on {'GPUs' if result.device == 'cuda' else 'CPUs'}"
        mean = number(geometric_mean([row.speedup for row in result.rows]))
        peers = ", ".join(unique(f"`{name}`" for row in result.rows for name in row.peers))
        parts += [
            f"### {title}",
            f"{machine(result.facts)}. {len(result.rows)} rows against {peers}; {mean} times as fast as the fastest of them in the "
            f"geometric mean, slower by more than {100 * (1 - SLOW):.0f} % in {slow}.",
            f"![{title}: time over the floor, of ours and of the peers](img/bench/{result.name}.svg)",
            f'<details markdown="1"><summary>All rows</summary>\n\nThe floor: {result.facts.get("floor", "see the program")}. '
            f"File: `benchmarks/results/{result.name}.json`.\n\n{rows_of(result)}\n\n</details>",
        ]
    return "\n\n".join(parts)


def sweep_plots() -> str:
    kinds = unique(results.kind(run) for run in results.sweeps())
    names = {"cuda": "GPU", "cpu": "CPU"}
    return "\n\n".join(
        f"![Speed relative to torch's best of every random problem on the {names[kind]}](img/bench/sweep-{kind}.svg)"
        for kind in kinds
    )


def training() -> str:
    facts = results.recorded("training")
    lines = []
    for key in unique((row["model"], row["dtype"], row["format"]) for row in facts["rows"]):
        rows = {row["graph"]: row for row in facts["rows"] if (row["model"], row["dtype"], row["format"]) == key}
        cells = [
            f"{rows[graph]['torch']} -> {rows[graph]['customops']} ({rows[graph]['customops'] / rows[graph]['torch']:.2f} x)"
            if graph in rows else "varies"
            for graph in (False, True)
        ]  # fmt: skip
        lines.append([" ".join(key), *cells])
    head = ["model", "images per second, torch -> ours", "steps as CUDA graphs"]
    return f"{table(head, lines)}\n\nBatch {facts['batch']}. {machine(facts)}; `benchmarks/models.py`."


def blocks() -> str:
    facts = results.recorded("blocks")
    lines = []
    for row in facts["rows"]:
        torch, ours = row["torch"], row["customops"]
        lines.append(
            [f"{row['block']} {row['dtype']} {row['format']}", f"{torch:.0f}", f"{ours:.0f}", f"{torch / ours:.2f}"]
        )
    head = ["block", "torch, us", "ours, us", "times as fast"]
    return f"{table(head, lines)}\n\n{machine(facts)}; `benchmarks/blocks.py`."


def overhead() -> str:
    facts = results.recorded("overhead")
    base = {row["call"]: row for row in facts["rows"]}
    lines = []
    for row in facts["rows"]:
        cells = []
        for mode in ("plain", "gradient"):
            ratio = f" ({row[mode] / base[row['peer']][mode]:.1f} x)" if row["peer"] and row[mode] else ""
            cells.append(f"{row[mode]:.2f}{ratio}" if row[mode] else "")
        lines.append([f"`{row['call']}`", *cells])
    return f"{table(['us a call', 'no gradient needed', 'gradient needed'], lines)}\n\n{machine(facts)}; `benchmarks/overhead.py`."


def counters() -> str:
    facts = results.recorded("counters")
    keys = ("us", "memory", "issue", "multiply_add", "shared")
    lines = [[r["name"], f"`{r['kernel']}`", *(f"{r[key]:.0f}" for key in keys), r["stalls"]] for r in facts["rows"]]
    head = ["call", "kernel", "us", "memory %", "issue %", "FMA %", "shared %", "stalls"]
    return f"{table(head, lines, right=2)}\n\n{machine(facts)}; `benchmarks/counters.py`."


def sve() -> str:
    facts = results.recorded("sve")
    ways = ("neon", "sve128", "sve256")
    names = {"leaky": "`relu`, `lrelu`"}  # one loop
    lines = [
        [names.get(row["activation"], f"`{row['activation']}`"), *(f"{row[way]:.1f}" for way in ways)]
        for row in facts["rows"]
    ]
    head = ["instructions for an output", "NEON", "SVE, 128 bits", "SVE, 256 bits"]
    return f"{table(head, lines)}\n\nLoops of `bias_act` over float32, {facts['compiler']}, {facts['date']}; `benchmarks/sve.py`."


def family_of(call: str) -> str:
    """Calls of one op and direction, and in depthwise_conv2d of one number of channels and format."""
    op, *parts = call.split(", ")
    if not op.startswith("depthwise"):
        return ", ".join([f"`{op.split()[0]}`", *(part for part in parts if part.startswith("gradient"))])
    return ", ".join([f"`{op}`", *(part for part in parts if not re.fullmatch(r"\d+x\d+|stride \d", part))])


def instructions() -> str:
    """How many times AVX2's instructions NEON takes for an output, and how many times NEON's scalar code: fewest and most."""
    facts = results.recorded("instructions")
    families: dict[str, list[dict]] = {}
    for row in facts["rows"]:
        families.setdefault(family_of(row["call"]), []).append(row)

    def span(rows: list[dict], above: str, below: str) -> str:
        ratios = [row[above] / row[below] for row in rows]
        return f"{min(ratios):.1f} to {max(ratios):.1f}"

    pairs = (("neon", "avx2"), ("neon_vector", "avx2_vector"), ("scalar", "neon"))
    lines = [[name, str(len(rows)), *(span(rows, *pair) for pair in pairs)] for name, rows in families.items()]
    head = [
        "calls in float32",
        "counted",
        "NEON / AVX2, all",
        "NEON / AVX2, in blocks with vectors",
        "scalar / NEON, all",
    ]
    return (
        f"{table(head, lines)}\n\nInstructions of the library for an output, the fewest and the most times, under qemu, "
        f"{facts['date']}; `benchmarks/instructions.py`. A block is code up to a jump."
    )


def build_times() -> str:
    facts = results.recorded("build")
    lines = [[row["what"], row["device"], f"{row['minutes']:.0f} min"] for row in facts["rows"]]
    return f"{table(['`make wheel VARIANT=cuda`', 'machine', 'takes'], lines, right=2)}\n\nNine GPU architectures, {facts['date']}."


def shared_objects() -> str:
    """What a build with CACHE finds after another: one that was killed, or parts on several machines."""
    facts = results.recorded("farm")
    lines = [[row["what"], f"{row['objects']}", f"{row['found']}", f"{row['compiled']}"] for row in facts["rows"]]
    return f"{table(['', 'objects', 'found', 'compiled and stored'], lines)}\n\nA CMake project, {facts['date']}."


def audited(row: dict) -> str:
    differ = (
        f"{row['differ']} differ{'s' * (row['differ'] == 1)}, by {' and '.join(row['named'])}"
        if row["differ"]
        else "none differs"
    )
    return f"{row['compared']} compared, {differ}"


def farm_tried() -> str:
    """What builders in networks of their own came to, with one that was killed and one that lied: a table for each project."""
    head = [
        "",
        "compiled by the builders",
        "found by `make wheel`",
        "compiled by it",
        "its wheel",
        "`make audit-cache`",
    ]
    parts = []
    for path in sorted((results.RESULTS / "other").glob("farm-tried-*.json")):
        facts = results.read(path)
        lines = [
            [row["what"], " + ".join(map(str, row["compiled"])), f"{row['found']}", f"{row['missing']}",
             "the same" if row["same"] else "another", audited(row)]
            for row in facts["rows"]
        ]  # fmt: skip
        parts.append(
            f"{table(head, lines, right=9)}\n\n{facts['builders']} builders on {facts['cpus']} CPUs, {facts['project']}, {facts['date']}."
        )
    return "\n\n".join(parts)


def gpus(facts: dict) -> str:
    """What a build of the farm was for."""
    return (
        f"for `CUDA_ARCHS={facts['cuda_archs']}`" if facts["cuda_archs"] else "for all GPU architectures of a release"
    )


def farm_by_model() -> str:
    """What more builders would save, by the durations of one build of everything."""
    facts = results.recorded("farm-release")
    record = farm_model.read(facts)
    predicted = {builders: farm_model.predict(record, builders) for builders in farm_model.BUILDERS}
    alone = predicted[1].seconds
    lines = [
        [f"{builders}", *(f"{part:.0f}" for part in parts), f"{parts.seconds:.0f}", number(alone / parts.seconds)]
        for builders, parts in predicted.items()
    ]
    head = ["builders", "list, s", "compile, s", "transfer, s", "link, s", "in all, s", "times as fast"]
    measured = "".join(
        f"Measured by `benchmarks/farm.py`, without containers, transfer, repair and check: {row['builders']} builder{'s' * (row['builders'] > 1)} "
        f"{row['seconds']:.0f} s; by the model {row['predicted']:.0f} s. " for row in facts.get("rows", ())
    )  # fmt: skip
    longest = sorted(record.objects, key=record.objects.get, reverse=True)[:3]
    named = ", ".join(f"`{name}` {record.objects[name]:.0f} s" for name in longest)
    return (
        f"{table(head, lines)}\n\n{len(record.objects)} objects, {gpus(facts)}, {sum(record.objects.values()):.0f} s of compilers, "
        f"{record.megabytes:.1f} MB in the cache; {farm_model.MEGABITS} Mbit/s. The longest objects: {named}. From "
        f"{farm_model.enough(record)} builders on, twice as many save less than {100 * farm_model.PAYS:.0f} %. {measured}"
        f"({results.builders_of(facts)})"
    )


def farm_measured() -> str:
    """Builders on one machine, beside the model."""
    if not (results.RESULTS / "other/farm-builders.json").exists():
        return "Not measured so far."
    facts = results.recorded("farm-builders")
    rows = {row["builders"]: row for row in facts["rows"]}
    lines = [
        [f"{count}", f"{row['listing']:.0f}", f"{row['compiling']:.0f} ({row['predicted_compiling']:.0f})", f"{row['linking']:.0f}",
         f"{row['seconds']:.0f} ({row['predicted']:.0f})", number(rows[min(rows)]["seconds"] / row["seconds"])]
        for count, row in sorted(rows.items())
    ]  # fmt: skip
    head = ["builders", "list, s", "compile, s (model)", "link, s", "in all, s (model)", "times as fast"]
    same = "The same bytes" if all(row["same_objects"] for row in facts["rows"]) else "Not the same bytes"
    archs = gpus(facts)
    return (
        f"{table(head, lines)}\n\n{len(facts['objects'])} objects, {archs}. {same} of each, by every number of builders. "
        f"({results.builders_of(facts)}; `benchmarks/farm.py`)"
    )


# What a library takes from others decides how many wheels serve everybody: (symbols of torch, symbols of CPython).
WHEELS = {
    (True, True): "one for each CPython and torch",
    (True, False): "one for each torch",
    (False, True): "one for each CPython",
    (False, False): "one",
}
WAYS = {
    "pybind11": "pybind11 and ATen",
    "library": "`TORCH_LIBRARY` and ATen",
    "stable": "stable ABI",
    "direct": "stable ABI, `csrc/allocate.h`",
}


def ports() -> str:
    """What each way to compile one op takes and costs, and where else its file runs."""
    facts = results.recorded("port")
    lines, elsewhere = [], {}
    for row in facts["rows"]:
        way, needs = WAYS[row["way"]], (bool(row["torch_symbols"]), bool(row["python_symbols"]))
        cells = [f"{row['torch_symbols']}", f"{row['python_symbols']}", f"{row['bytes'] / 1000:.0f} kB"]
        lines.append([way, WHEELS[needs], *cells, f"{row['compile_seconds']:.0f} s", f"{row['us']:.1f} us"])
        for there in row["elsewhere"]:
            said = f"fails, `{there['fails']}`" if there["fails"] else "works"
            elsewhere.setdefault(there["where"], []).append(f"- {way}: {said}")
    head = ["", "wheels needed", "symbols of torch", "symbols of CPython", "library", "compiling", "a call"]
    parts = [table(head, lines, right=2)]
    parts += [f"The same files on {where}:\n\n" + "\n".join(tried) for where, tried in elsewhere.items()]
    parts.append(
        f"CPU time of the compiler, and of a call on 4 numbers that needs no gradient. {machine(facts)}, CPython {facts['python']}, "
        f"{facts['compiler']}; `benchmarks/port.py`."
    )
    return "\n\n".join(parts)


def ports_cuda() -> str:
    """CUDA ops compiled from the same source in two ways: kernels, and calls."""
    facts = results.recorded("port-cuda")
    lines = [
        [f"`{row['op']}`", *(f"{row[what][way]:.{digits}f}" for what, digits in (("kernel_us", 0), ("call_us", 1)) for way in ("aten", "aten_stable")),
         number(row["call_us"]["aten_stable"] / row["call_us"]["aten"])] for row in facts["rows"]
    ]  # fmt: skip
    head = [
        "",
        "kernel, ATen, us",
        "kernel, aten_stable, us",
        "call, ATen, us",
        "call, aten_stable, us",
        "times as long",
    ]
    return (
        f"{table(head, lines)}\n\nKernels: float32, {facts['elements'] / 1e6:.0f} million elements, by CUDA's events. Calls: 4 elements, on the host. "
        f"Medians of calls in turns. {machine(facts)}; `benchmarks/port_cuda.py`."
    )


def ports_calls() -> str:
    """What a call on 4 elements costs under ATen and under aten_stable."""
    facts = results.recorded("port-calls")
    lines = [
        [
            row["call"],
            *(f"{row[way]:.2f}" for way in ("aten", "aten_stable")),
            f"{row['aten_stable'] / row['aten']:.2f}",
        ]
        for row in facts["rows"]
    ]
    return (
        f"{table(['', 'ATen, us', 'aten_stable, us', 'times as long'], lines)}\n\nCPU time, medians of calls in turns; a "
        f"`torch.autograd.Function` of Python's that only detaches its input takes {facts['empty_function_us']:.2f} us. "
        f"{machine(facts)}, CPython {facts['python']}, {facts['compiler']} with `-O2`; `benchmarks/port_calls.py`."
    )


BLOCKS = {
    "ops": ops,
    "slower": slower,
    "benchmarks": benchmarks,
    "random-problems": random_problems,
    "by-duration": by_duration,
    "slow-classes": slow_classes,
    "sweep-plots": sweep_plots,
    "worst-rows": worst_rows,
    "far-from-floor": far_from_floor,
    "training": training,
    "blocks": blocks,
    "overhead": overhead,
    "counters": counters,
    "sve": sve,
    "instructions": instructions,
    "build-times": build_times,
    "ports": ports,
    "ports-calls": ports_calls,
    "ports-cuda": ports_cuda,
    "shared-objects": shared_objects,
    "farm-tried": farm_tried,
    "farm-by-model": farm_by_model,
    "farm-measured": farm_measured,
}
