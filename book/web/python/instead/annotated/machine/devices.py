"""The page has one device."""


def best_device():
    return "cpu"
