"""Relations as pandas DataFrames: columns by name, numbers as numbers, symbols as texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.values import Row

if TYPE_CHECKING:
    import pandas


def frame(columns: Sequence[str], rows: Iterable[Row]) -> pandas.DataFrame:
    """A table of rows. InputError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise InputError("tables as DataFrames need pandas", hint="pip install pandas") from None
    return pandas.DataFrame(list(rows), columns=list(columns))
