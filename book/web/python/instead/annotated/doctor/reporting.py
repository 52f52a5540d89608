"""The doctor stays outside the page."""

check = None
