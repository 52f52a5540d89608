"""Files are written whole or not at all, and what cannot be read is named in one line (module files, chapter 94)."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from annotated.files import InputError, read_json, read_tensors, write_atomically, write_json


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


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "model.safetensors"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be written \(No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "run" / "model.safetensors", b"new")


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C is no fault of the file: it goes on to whoever waits for it."""

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_json_comes_back_and_can_be_read_by_people(tmp_path: Path):
    content = {"name": "König", "list": [1, 2.5, None], "nested": {"a": True}}
    write_json(tmp_path / "file.json", content)
    assert read_json(tmp_path / "file.json") == content
    text = (tmp_path / "file.json").read_text(encoding="utf-8")
    assert "König" in text
    assert text == json.dumps(content, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
def test_what_is_no_json_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(InputError, match=r"file\.json: not a JSON file") as caught:
        read_json(tmp_path / "file.json")
    assert "\n" not in str(caught.value)


def test_json_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"file\.json: cannot be read \(No such file"):
        read_json(tmp_path / "file.json")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory"):
        read_json(tmp_path)


def test_tensors_come_back(tmp_path: Path):
    tensors = {"a": torch.randn(3, 2), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.tensor(7)}
    write_atomically(tmp_path / "file", save(tensors))
    found = read_tensors(tmp_path / "file")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor)
        assert found[name].dtype == tensor.dtype


def test_tensors_that_cannot_be_read_are_named(tmp_path: Path):
    whole = save({"a": torch.randn(30, 20)})
    for content in (whole[: len(whole) // 2], b"", b"\x80\x04 something else"):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match=f"{tmp_path}/file: not a readable safetensors file") as caught:
            read_tensors(tmp_path / "file")
        assert "\n" not in str(caught.value)
    for missing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="no such file"):
            read_tensors(missing)


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)
