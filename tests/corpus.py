"""The recorded data in tests/data: real receipts with correct answers, and a history that a real
runtime executed.
"""

import csv
import gzip
import json
import tarfile
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


def unpack_receipts(folder: Path) -> Path:
    """Unpack the receipts below `folder`; return the folder with truth.csv, json/, mints/ and
    providers/.
    """
    with tarfile.open(DATA / "receipts.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "receipts"


def read_truth(receipts: Path) -> list[dict]:
    """Read the correct results: a row per receipt and wallet. `receipts`: from unpack_receipts."""
    with open(receipts / "truth.csv", newline="") as file:
        return list(csv.DictReader(file))


def read_history() -> dict:
    """The recorded history: {"venue", "wallets", "transactions": [...], ...}."""
    return _read("history.json.gz")


def read_expected() -> dict:
    """Each wallet's results in the history, {address: ...}, by an oracle that shares no code with
    this project.
    """
    return _read("expected-2.json.gz")["wallets"]


def _read(name: str) -> dict:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return json.load(file)
