"""A CSV file with a header line, plain or gzip."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cloister.core.errors import DataError
from cloister.data.text_file import first_line, read_lines, shortened

__all__ = ["CsvTable", "open_csv"]


@dataclass(frozen=True)
class CsvTable:
    r"""The columns of a CSV file, and its rows when asked for.

    Column names are in capitals, whatever the file writes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.csv")
    ...     _ = path.write_text("Id,FIRST\n7,Elly\n")
    ...     table = open_csv(path)
    ...     list(table.select(("ID",), ("MIDDLE", ""), ("GIVEN", "FIRST")))
    [('7', '', 'Elly')]
    """

    path: Path
    columns: Mapping[str, int]

    def rows(self) -> Iterator[list[str]]:
        """Stream the rows; one with more or fewer fields than the header is an error."""
        reader = csv.reader((line for _, line in read_lines(self.path)), strict=True)
        try:
            next(reader, None)
            for row in reader:
                if len(row) == len(self.columns):
                    yield row
                elif row:
                    raise DataError(
                        f"{len(row)} fields, but the header has {len(self.columns)}: "
                        f"{shortened(','.join(row))}",
                        where=f"{self.path}:{reader.line_num}",
                    )
        except csv.Error as error:
            raise DataError(f"not CSV: {error}", where=f"{self.path}:{reader.line_num}") from None

    def require(self, *names: str) -> str:
        """Return the first of some names that is a column or empty, or raise."""
        for name in names:
            if name in self.columns or not name:
                return name
        raise DataError(
            f"no column {' or '.join(names)}",
            where=str(self.path),
            remedy=f"the columns are {', '.join(self.columns)}",
        )

    def select(self, *columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Stream some columns of every row.

        Each column is given as the names that it may have; an empty name at the end means that it
        may be missing, and is empty then.
        """
        positions = [self.columns.get(self.require(*names), len(self.columns)) for names in columns]
        for row in self.rows():
            row.append("")  # stands for every missing column
            yield tuple([row[position] for position in positions])


def open_csv(path: str | Path) -> CsvTable:
    """Read the header of a CSV file."""
    path = Path(path)
    try:
        header = next(csv.reader([first_line(path)], strict=True), [])
    except csv.Error as error:
        raise DataError(f"not CSV: {error}", where=f"{path}:1") from None
    columns = {name.strip().upper(): position for position, name in enumerate(header)}
    if not columns or len(columns) != len(header):
        raise DataError(
            f"the header names no column, or one twice: {shortened(','.join(header))}",
            where=f"{path}:1",
        )
    return CsvTable(path, columns)
