"""The server for printing and for the tests of the site: tools/browser.py."""

import socket
import threading
import time
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tools import limits
from tools.browser import Quiet, served


def wait_for_handlers() -> None:
    """Wait until the server's threads have ended, and have said what they had to say."""
    end = time.monotonic() + limits.PROCESS
    while any("process_request" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < end, "the server still sends"
        time.sleep(0.01)


def test_a_reader_that_goes_away_is_not_reported(tmp_path, capfd):
    """Guards passing runs: a browser that leaves a page closes its connections, and no traceback is printed."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(16_000_000)
    with served(tmp_path) as address:
        for _ in range(3):
            with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port)) as reader:
                reader.sendall(b"GET /large HTTP/1.0\r\n\r\n")
                assert reader.recv(100).startswith(b"HTTP/1.0 200")
        wait_for_handlers()
    assert capfd.readouterr() == ("", "")


def test_any_other_fault_of_the_server_is_reported(tmp_path, capfd, monkeypatch):
    """Guards the test above: only readers that went away are passed over."""

    def fail(self):
        raise OSError("the disk is gone")

    monkeypatch.setattr(Quiet, "do_GET", fail)
    with served(tmp_path) as address:
        with pytest.raises((URLError, ConnectionError)):
            urlopen(address)
        wait_for_handlers()
    assert "OSError: the disk is gone" in capfd.readouterr().err
