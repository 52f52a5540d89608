"""Signals and standard streams of the command (chapter 91); what they do to a command is in test_cli.py."""

import os
import signal
from collections.abc import Iterator

import pytest

from annotated.files import InputError
from annotated.terminal import Stop, chunks


def test_signal_handlers_are_put_back():
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        pytest.skip("Ctrl-C is ignored where these tests were started")
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
