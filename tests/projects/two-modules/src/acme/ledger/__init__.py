import csv
from importlib.resources import files

from ._sum import total
from ._twice import twice

__all__ = ["rates", "total", "twice"]


def rates():
    lines = files(__package__).joinpath("rates.csv").read_text().splitlines()
    return {name: float(rate) for name, rate in csv.reader(lines)}
