import numpy as np
import pytest
from movemax import movemax


@pytest.mark.parametrize("width", [1, 2, 7, 100])
def test_values(width):
    values = np.random.default_rng(width).normal(size=100)
    expected = np.lib.stride_tricks.sliding_window_view(values, width).max(axis=1)
    np.testing.assert_array_equal(movemax(values, width), expected)


@pytest.mark.parametrize("width", [0, 4])
def test_bad_width(width):
    with pytest.raises(ValueError, match="width must be between 1"):
        movemax([1.0, 2.0, 3.0], width)
