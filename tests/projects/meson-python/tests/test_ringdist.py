import pytest
from ringdist import distance


@pytest.mark.parametrize(("a", "b", "expected"), [(0, 0, 0), (1, 11, 2), (11, 1, 2), (0, 6, 6), (-1, 13, 2)])
def test_values(a, b, expected):
    assert distance(a, b, 12) == expected


def test_extremes():
    assert distance(-(2**63), 2**63 - 1, 2**63 - 1) == 1


def test_bad_length():
    with pytest.raises(ValueError, match="length must be positive"):
        distance(1, 2, 0)
