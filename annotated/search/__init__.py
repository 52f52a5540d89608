"""The search that serves, and translation."""
