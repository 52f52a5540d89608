"""What makes and checks the book: most modules are commands, `python -m tools.NAME --help`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
