"""The model of the farm: its parts add up, more builders stop paying at the longest object, and it divides as make objects does."""

import itertools
import random
import sys

import divided
import pytest


@pytest.fixture
def model(root, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(root / "benchmarks")])
    import farm_model

    return farm_model


@pytest.fixture
def record(model):
    """Of 100 s of compilers, the longest 20 s."""
    objects = {"long.o": 20.0} | {f"{number}.o": 5.0 for number in range(16)}
    return model.Record(objects, megabytes=25, listing=3, linking=7, jobs=1)


def test_one_builder_does_everything(model, record):
    # 25 MB at 100 Mbit/s are 2 s; the builder sends them, and gets them again.
    assert model.predict(record, 1) == (3, 103, 4, 7)
    assert model.predict(record, 1).seconds == 117


def test_two_builders_share_compilers_and_network_only(model, record):
    assert model.predict(record, 2) == (3, 53, 3, 7)
    assert model.predict(record, 2, megabits=10) == (3, 53, 30, 7)


def test_no_number_of_builders_is_faster_than_the_longest_object(model, record):
    assert [model.compiling(record, builders) for builders in (1, 2, 4, 8, 64)] == [100, 50, 25, 20, 20]
    assert model.enough(record) == 8, "from 4 to 8 it still saves an eighth"


def test_a_builder_has_several_compilers(model, record):
    assert model.compiling(record._replace(jobs=2), 1) == 50
    assert model.makespan([4, 3, 2, 2], 2) == 6
    assert model.makespan([], 2) == 0


def test_divides_as_make_objects_does(model):
    chance = random.Random(0)
    objects = {f"{number}.o": chance.uniform(0.1, 60) for number in range(50)}
    record = model.Record(objects, 0, 0, 0, 1)
    for builders in range(1, 20):
        loads = [sum(map(objects.get, share)) for share in divided.divide(objects, objects, builders)]
        assert model.compiling(record, builders) == pytest.approx(max(loads))


def test_more_builders_are_never_slower(model, record):
    seconds = [model.predict(record, builders).seconds for builders in model.BUILDERS]
    assert all(then <= now for now, then in itertools.pairwise(seconds))


def test_names_do_not_depend_on_the_interpreter(model):
    for name in ("customops: build/temp.linux-x86_64-cpython-312/cuda12/cuda/axpy.o", "cuda12/cuda/axpy.o"):
        assert model.short_name(name) == "cuda12/cuda/axpy.o"
    assert model.short_name("customops: csrc/cpu/axpy.o") == "csrc/cpu/axpy.o"


def test_reads_what_was_recorded(model):
    facts = {"objects": {"a.o": 2.0, "b.o": 3.0}, "megabytes": 1, "listing": 2, "linking": 3, "jobs": 2, "rows": []}
    assert model.read(facts).longest == "b.o"
    assert model.read(facts).jobs == 2
