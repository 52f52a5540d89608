"""Signals and standard streams of the command (chapter 91); what they do to a command is in test_cli.py."""

import os
import signal
from collections.abc import Iterator

import pytest

from annotated.base.files import InputError
from annotated.command.terminal import Stop, chunks, columns


@pytest.fixture
def heard():
    """Signals as in a program that nobody started in the background: there Ctrl-C would be ignored."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heard")
def test_signal_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stop() as stop:
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before  # nothing to save yet
        assert not stop()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop()
        assert stop.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # a second one ends the process
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_what_came_before_an_error_is_handed_on():
    def lines() -> Iterator[str]:
        yield from "abc"
        raise InputError("the fourth")

    assert list(chunks("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    found = chunks(lines(), 2)
    assert [next(found), next(found)] == [["a", "b"], ["c"]]
    with pytest.raises(InputError, match="the fourth"):
        next(found)


@pytest.mark.parametrize(("line", "parts"), [
    ("one\t two ", ("one", "\t", "two")), ("one\t", ("one", "\t", "")), ("\ttwo", ("", "\t", "two")),
    (" one ", ("one", "", "")),
])  # fmt: skip
def test_columns_may_be_empty(line, parts):
    """yoyodyne#373's kind: whoever strips the line first takes the tab of an empty column for a blank."""
    assert columns(line) == parts
