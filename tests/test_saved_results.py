"""What a benchmark saves with --save is what docs/figures makes a table of."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "docker").is_dir():  # the tests of a wheel come without the rest of the checkout
    pytest.skip("not a whole checkout", allow_module_level=True)
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "docs/figures")]
import counters  # noqa: E402
import harness  # noqa: E402
import instructions  # noqa: E402
import overhead  # noqa: E402
import results  # noqa: E402
import sve as sve_loops  # noqa: E402
import tables  # noqa: E402

SPIN, OURS = "spin_kernel(long)", "void customops::cuda::(anonymous namespace)::pixels<c10::Half>(int)"


@pytest.fixture
def save(tmp_path, monkeypatch):
    """save(name, facts, rows): as the benchmarks do, and the tables read it."""
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    read = results.recorded
    monkeypatch.setattr(results, "recorded", lambda name: read(name, tmp_path))
    return lambda name, facts, rows: harness.save(name, f"{name}, in a test", facts, rows)


def test_overhead(save):
    plain = {"torch.add(a, b)": 2.0, "customops.add2(a, b)": 3.0}
    save("overhead", harness.machine("cpu"), overhead.rows_of(plain, plain | {"only with a gradient": 7.125}))
    table = tables.overhead().splitlines()
    assert table[2:5] == [
        "| `torch.add(a, b)` | 2.00 | 2.00 |",
        "| `customops.add2(a, b)` | 3.00 (1.5 x) | 3.00 (1.5 x) |",
        "| `only with a gradient` |  | 7.12 |",
    ]


def ncu(*records):
    """The output of ncu for (kernel, microseconds): the other metrics are 0, but for two stalls."""
    lines = [["ID", "Kernel Name", *counters.METRICS.values()]]
    lines.append(["", "", *("nsecond" if name == "us" else "%" for name in counters.METRICS)])
    for kernel, us in records:
        values = dict.fromkeys(counters.METRICS, "0") | {"us": f"{us * 1000:,}", "wait": "2.5", "barrier": "1.5"}
        lines.append(["1", kernel, *values.values()])
    return "==PROF== connected\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def test_the_longest_kernel_of_each_call(save):
    text = ncu((SPIN, 1), ("small(int)", 3), (OURS, 1234), (SPIN, 1), ("other(int)", 7))
    found = counters.kernels(text, ["first call", "second call"])
    facts = {"device": "GPU", "driver": "1", "torch": "2", "date": "2026-01-01"}
    save("counters", facts, [counters.saved(*line) for line in found.items()])
    table = tables.counters().splitlines()
    assert table[2] == "| first call | `pixels` | 1234 | 0 | 0 | 0 | 0 | wait 2.5, barrier 1.5 |"
    assert table[3].startswith("| second call | `other` | 7 |")


def arm(*instructions):
    """What objdump prints of the loop of relu, after one that computes nothing."""
    lines = ["0000 <copy(float)>:", "   0:\tnop", "   4:\tb.ne\t0 <copy(float)>"]
    lines.append("0010 <run_baseline<elements<0, customops::Leaky, float>()>:")
    body = ["ldr\tq0, [x0]", *instructions, "cbnz\tx1, 14 <run_baseline+0x4>"]
    lines += [f"  {16 + 4 * number:x}:\t{text}" for number, text in enumerate(["mov\tx1, #8", *body, "ret"])]
    return "\n".join(lines) + "\n"


def test_the_loop_of_an_activation_is_counted():
    neon, sve = "fmul\tv{0}.4s, v{0}.4s, v9.4s", "fmul\tz{0}.s, z{0}.s, z9.s"
    for form in (neon, sve):
        four, store = [form.format(number) for number in range(4)], "str\tq0, [x2]"
        assert sve_loops.loops(arm(*four, store)) == {"leaky": 7}
        assert sve_loops.loops(arm(*four, *four, "stp\tq0, q1, [x2]")) == {"leaky": 5.5}  # two registers a turn
        assert sve_loops.loops(arm(*four[:3], store)) == {}
        assert sve_loops.loops(arm(*four)) == {}
    found = sve_loops.rows({way: {"leaky": 8} for way in sve_loops.WAYS})
    assert found == [{"activation": "leaky", "neon": 2.0, "sve128": 2.0, "sve256": 1.0}]


def test_instructions_for_an_output():
    """Two blocks, one of them with vectors: two more outputs take it four times more, and the other once."""
    code = b"IN: f\n0x10:  ab  fmla v0.4s, v1.4s\n0x14:  ab  b.ne #0x10\n\nIN: g\n0x20:  ab  ret\n\n"
    traces = [
        b"".join(b"Trace 0: 0x7f [0/%016x/1/2] f\n" % at for at in ran) for ran in ([16, 32], [16] * 5 + [32] * 2)
    ]
    begin, middle = len(code), len(code + traces[0])
    notes = [["call", 1, 2, begin, middle], ["call", 2, 4, middle, middle + len(traces[1])]]
    assert instructions.shown(code + b"".join(traces), notes) == {"call": (4.5, 4.0)}
