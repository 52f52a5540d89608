"""Studies behind the records of data/runs, to be run again by hand: `python -m studies.NAME`."""
