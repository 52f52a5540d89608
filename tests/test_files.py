"""Files are written whole or not at all, and what cannot be read is named in one line (module files, chapter 94)."""

import errno
import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from annotated.base import files
from annotated.base.files import (
    InputError,
    current,
    finish,
    locked,
    read_json,
    read_tensors,
    verify,
    with_todo,
    write_atomically,
    write_json,
    write_together,
)


def test_an_error_says_in_one_line_what_to_do():
    error = InputError("x: no such file", "Check the path.")
    assert (str(error), with_todo(error)) == ("x: no such file", "x: no such file. Check the path.")
    error.add_note("stopped after line 2")
    assert with_todo(error, "a\nreason.") == "a reason. Check the path; stopped after line 2"
    assert with_todo(InputError("x")) == "x"


def test_a_file_is_written_whole_and_replaces_the_old_one(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "file"
    for content in (b"first and longer", b"second", b""):
        write_atomically(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever reads meanwhile finds the old content, and what is renamed has reached the disk."""
    path, seen = tmp_path / "file", []
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda number: seen.append((path.read_bytes(), os.fstat(number).st_size)))
    write_atomically(path, b"longer")
    assert seen[0] == (b"old", 6)
    assert path.read_bytes() == b"longer"


def test_a_full_disk_leaves_the_old_file_and_no_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.safetensors"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for place in (path, tmp_path / "new" / "folder" / "file", path / "file"):
        with pytest.raises(InputError, match=f"^{place}: "):
            write_atomically(place, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C is no fault of the file: it goes on to whoever waits for it."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_json_comes_back_and_can_be_read_by_people(tmp_path: Path):
    """Also the name of a file, which may have any bytes (maestral#230's kind)."""
    path, content = (
        tmp_path / "file.json",
        {"name": "König", "file": os.fsdecode(b"bad\xff"), "a": {"b": [1, 2.5, None]}},
    )
    write_json(path, content)
    assert read_json(path) == content
    assert path.read_bytes().startswith('{\n  "name": "König",\n'.encode())
    for damaged in (b"{", b"\xff\xfe", b"", b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"^{path}: "):
            read_json(path)
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=f"^{missing}: "):
            read_json(missing)


def test_tensors_come_back(tmp_path: Path):
    tensors = {"a": torch.randn(3, 2), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.tensor(7)}
    write_atomically(tmp_path / "file", save(tensors))
    found = read_tensors(tmp_path / "file")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype
    whole = (tmp_path / "file").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"\x80\x04 something else"):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match=f"^{tmp_path / 'file'}: "):
            read_tensors(tmp_path / "file")
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=f"^{missing}: "):
            read_tensors(missing)


def test_permissions_and_links_stay(tmp_path: Path):
    """A file that only its owner may read is not opened to others by a new content, and a link leads where it led."""
    path = tmp_path / "file"
    write_atomically(path, b"old")
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    write_atomically(tmp_path / "link", b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "link").is_symlink()


def test_files_are_replaced_together_and_listed(tmp_path: Path):
    assert verify(tmp_path) is False
    write_together(tmp_path, {"a": b"1", "b": b"2"})
    assert verify(tmp_path) is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "manifest.json"]
    write_together(tmp_path, {"a": b"3", "b": b"4"})
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"3", b"4"]
    assert verify(tmp_path) is True


@pytest.mark.parametrize("content", [b"12", b"2", None])
def test_a_file_that_is_not_what_was_written_is_named(tmp_path: Path, content: bytes | None):
    write_together(tmp_path, {"a": b"1"})
    (tmp_path / "a").unlink() if content is None else (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match=f"^{tmp_path / 'a'}: .* delete {tmp_path / 'manifest.json'}"):
        verify(tmp_path)


def test_an_interrupted_replacement_is_read_and_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From the moment its manifest is there the new files count, also for who may not write."""
    write_together(tmp_path, {"a": b"1", "b": b"2"})
    with monkeypatch.context() as patch:
        patch.setattr(files, "finish", lambda *_: None)
        write_together(tmp_path, {"a": b"3", "b": b"4"})
    assert (tmp_path / "a").read_bytes() == b"1"
    assert current(tmp_path, "a").read_bytes() == b"3"
    assert verify(tmp_path) is True
    finish(tmp_path)
    assert (tmp_path / "a").read_bytes() == b"3"
    assert list(tmp_path.glob("*.new")) == []


def test_what_does_not_come_back_is_noticed_while_the_old_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_together(tmp_path, {"a": b"1"})
    real = files.disk.write

    def forgetful(path: Path, content: bytes) -> None:
        real(path, content[:-1] if path.name.startswith("a.") else content)

    monkeypatch.setattr(files.disk, "write", forgetful, raising=False)
    with pytest.raises(InputError, match=r"a\.new: damaged: 0 bytes instead of 1"):
        write_together(tmp_path, {"a": b"2"})
    assert verify(tmp_path) is True
    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path: Path):
    for name in ("../outside", "/etc/passwd", "folder/file"):
        write_json(tmp_path / "manifest.json", {"format": "annotated-manifest-1", "files": {name: files.listed(b"")}})
        with pytest.raises(InputError, match=name):
            verify(tmp_path)


def test_a_folder_is_for_one_process(tmp_path: Path):
    with locked(tmp_path / "new", warn=pytest.fail):
        with pytest.raises(InputError, match=f"process {os.getpid()}"), locked(tmp_path / "new", warn=pytest.fail):
            pass
        assert (tmp_path / "new" / ".lock").exists()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".lock").write_text("12345")  # of a process that was killed: only a lock counts
    with locked(tmp_path, warn=pytest.fail):
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_there_are_no_locks_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "fcntl", None)
    said: list[str] = []
    with locked(tmp_path, warn=said.append), locked(tmp_path, warn=said.append):
        pass
    assert len(said) == 2
    assert "no lock can be had here" in said[0]


def test_without_posix_the_module_can_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No locks, and no folder that can be waited for: a weaker promise, and no error."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("elsewhere", files.__file__)
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    elsewhere.FOLDERS_SYNC = False
    elsewhere.write_together(tmp_path, {"a": b"1"})
    assert elsewhere.fcntl is None
    assert (tmp_path / "a").read_bytes() == b"1"
