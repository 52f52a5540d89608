"""Studies behind the records of data/runs: `python -m studies.NAME`; `length` and `parsing` score what a plan ran."""
