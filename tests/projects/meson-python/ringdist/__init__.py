"""distance(a, b, length): the shorter way from a to b on a ring."""

from ringdist._ringdist import distance

__all__ = ["distance"]
