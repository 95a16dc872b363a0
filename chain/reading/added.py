"""Read CSV files with which an operator adds rows to a built-in table. Pure."""

import csv
import io
from collections.abc import Iterator, Sequence


class BadTable(ValueError):
    """An operator's file is invalid. The message names file, line, field and allowed values."""


class AddedRows:
    """The rows of an operator's file below its header, as stripped cells.

    Iterating raises BadTable for a wrong header, a wrong number of cells or an open quote.
    """

    def __init__(self, file: str, columns: Sequence[str], text: str) -> None:
        self._file, self._columns = file, list(columns)
        self._reader = csv.reader(io.StringIO(text, newline=""), strict=True)

    def __iter__(self) -> Iterator[list[str]]:
        rows = filter(None, self._reader)
        try:
            if [cell.strip() for cell in next(rows, self._columns)] != self._columns:
                raise self.refuse("header", f"must be {','.join(self._columns)}")
            for cells in rows:
                self._check_count(cells)
                yield [cell.strip() for cell in cells]
        except csv.Error:
            raise self.refuse("quotes", "a quoted cell must be closed") from None

    def _check_count(self, cells: Sequence[str]) -> None:
        count = len(self._columns)
        if len(cells) != count:
            wanted = f"must be {count} ({','.join(self._columns)}), not {len(cells)}"
            raise self.refuse("columns", f"{wanted}; put a cell that contains a comma in quotes")

    def refuse(self, field: str, allowed: str) -> BadTable:
        """Return the error about a field of the current row."""
        return BadTable(f"DATA_DIR/{self._file}, line {self._reader.line_num}, {field}: {allowed}")
