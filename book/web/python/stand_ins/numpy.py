"""There is no NumPy in the page."""


def __getattr__(name):
    raise AttributeError("this page has no numpy; run the chapter in Jupyter")
