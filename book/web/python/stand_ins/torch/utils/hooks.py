"""Functions that hear what goes into a module, or what comes out."""


class RemovableHandle:
    def __init__(self, hooks, hook):
        self.hooks = hooks
        hooks[self] = hook

    def remove(self):
        self.hooks.pop(self, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()
