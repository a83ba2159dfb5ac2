"""Who compiles what: the division of objects among builders, by `make objects` and by benchmarks/farm_model.py."""

from collections.abc import Iterable

GUESS = 1.0  # seconds of an object, if nobody has timed any


def divide(objects: Iterable[str], seconds: dict[str, float], parts: int) -> list[list[str]]:
    """Longest first, each to the builder that has the least to do: the same parts whoever asks, for the same durations.

    An object that nobody has timed counts as the mean of the others.
    """
    names = sorted(set(objects))
    known = [seconds[name] for name in names if name in seconds]
    guess = sum(known) / len(known) if known else GUESS
    loads, shares = [0.0] * parts, [[] for _ in range(parts)]
    for name in sorted(names, key=lambda name: (-seconds.get(name, guess), name)):
        least = loads.index(min(loads))
        loads[least] += seconds.get(name, guess)
        shares[least].append(name)
    return shares
