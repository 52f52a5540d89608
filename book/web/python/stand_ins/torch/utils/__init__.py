"""Nothing of it is used in the page."""
