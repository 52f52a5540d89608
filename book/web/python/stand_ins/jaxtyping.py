"""Names of shapes: for readers alone."""


class _Named:
    def __class_getitem__(cls, what):
        return what[0]


Float = Int = Bool = Num = Shaped = _Named
