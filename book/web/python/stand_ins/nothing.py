"""What draws in a chapter draws nothing here: the page shows the picture that was drawn before."""


class Nothing:
    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, at):
        return self

    def __setitem__(self, at, value):
        pass

    def __iter__(self):
        while True:
            yield self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def _repr_html_(self):
        return None


nothing = Nothing()
