"""movemax(values, width): the largest of every `width` neighbouring values of an array."""

from movemax._core import movemax

__all__ = ["movemax"]
