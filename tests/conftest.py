"""Where the op tests run: `pytest tests` on the CPU, `pytest tests --device=cuda` on this machine's GPUs."""

import pytest

collect_ignore = ["projects"]  # other people's, so to speak: the factory builds and tests them


def pytest_addoption(parser):
    parser.addoption("--device", choices=("cpu", "cuda"), default="cpu")
    parser.addoption(
        "--one-in", type=int, default=1, help="every so many tests, one runs: for machines on which all take hours"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "compiled: goes through a compiler, which spoils a run under compute-sanitizer")
    config.addinivalue_line("markers", "graph: captures a CUDA graph, which needs torch's caching allocator")
    config.addinivalue_line("markers", "huge: takes more than 2^31 elements, some 20 GB of GPU memory")
    if config.getoption("--device") == "cpu":
        return
    import torch  # not on top: the tests of the pipeline have none

    if not torch.cuda.is_available():
        raise pytest.UsageError("--device=cuda: torch sees no GPU here (python -m customops shows what it sees)")
    if hasattr(config, "workerinput"):  # one of pytest-xdist's: each would compute references with a thread a core
        torch.set_num_threads(1)


def pytest_collection_modifyitems(config, items):
    items[:] = items[:: config.getoption("--one-in")]


def pytest_ignore_collect(collection_path, config):
    return True if collection_path.name == "test_cuda.py" and config.getoption("--device") == "cpu" else None


@pytest.fixture(scope="session")
def device(request):
    return request.config.getoption("--device")
