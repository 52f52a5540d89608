"""This package beside the systems people would use instead: `make bench`."""
