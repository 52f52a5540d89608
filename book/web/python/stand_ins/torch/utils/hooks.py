"""Hooks are not called in the page."""


class RemovableHandle:
    pass
