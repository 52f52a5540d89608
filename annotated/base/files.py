"""Files that are whole or not there, manifests, and errors that say what to do."""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import safetensors
from safetensors.torch import load
from torch import Tensor

__all__ = [
    "COPY_AGAIN",
    "COPY_WHOLE",
    "FETCH",
    "FREE_SPACE",
    "InputError",
    "MANIFEST",
    "check_listed",
    "current",
    "disk",
    "finish",
    "is_pointer",
    "json_bytes",
    "listed",
    "locked",
    "manifest_of",
    "missing_folders",
    "read_json",
    "read_manifest",
    "read_notes",
    "read_tensors",
    "remove_folders",
    "verify",
    "with_todo",
    "write_atomically",
    "write_json",
    "write_together",
]


try:
    import fcntl
except ImportError:  # not on this system: no locks
    fcntl = None

FREE_SPACE = "Free some space, or name a place where you may write."
COPY_AGAIN = "It was cut on its way, or is something else: copy it again."
COPY_WHOLE = "Check the path, and whether the folder was copied whole."
FETCH = "`git lfs pull` fetches the file itself."


class InputError(ValueError):
    """Something the user gave cannot be used. The message is one line: what and where; a note says what to do."""

    def __init__(self, message: str, todo: str = ""):
        super().__init__(message)
        self.todo = todo
        if todo:
            self.add_note(todo)


def with_todo(error: BaseException, message: str | None = None) -> str:
    """What an error says, or another message in its place, and then its notes, in one line."""
    line = str(error) if message is None else message
    for note in getattr(error, "__notes__", []):
        line = f"{line.removesuffix('.')}{';' if note[:1].islower() else '.'} {note}"
    return " ".join(line.split())


class Disk:
    """What is done to files, one operation at a time, so that a test can let each of them fail (`tools.faults`)."""

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def open(self, path: Path) -> BinaryIO:
        """Read bit by bit what may be larger than memory."""
        return open(path, "rb")

    def write(self, path: Path, content: bytes) -> None:
        """Write, and wait until the content has reached the disk."""
        with open(path, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def append(self, path: Path, content: bytes, wait: bool = False) -> None:
        """Add to the end, and wait for the disk only if wanted."""
        with open(path, "ab") as file:
            file.write(content)
            if wait:
                file.flush()
                os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        """Put `old` in the place of `new` in a single act, and wait until the folder knows it."""
        old.replace(new)
        if FOLDERS_SYNC:
            number = os.open(new.parent, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)


FOLDERS_SYNC = os.name == "posix"  # elsewhere a folder cannot be opened, and a name may reach the disk later
disk = Disk()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file whole or not at all: under another name first, then renamed. Its permissions stay.

    Raises InputError, naming the file, when it cannot be written; what was there before stays, and no new folder does.
    """
    place = path.resolve() if path.is_symlink() else path
    partial, fresh = place.with_name(place.name + ".partial"), missing_folders(place)
    try:
        disk.make_folder(place.parent)
        disk.write(partial, content)
        if place.exists():
            partial.chmod(place.stat().st_mode)
        disk.rename(partial, place)
    except BaseException as error:
        with suppress(OSError):  # in a folder that is gone or read-only nothing was written
            disk.remove(partial)
            remove_folders(fresh)
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror})", FREE_SPACE) from None
        raise


def missing_folders(path: Path) -> list[Path]:
    """The folders that are to be made for a file, the innermost first."""
    return [folder for folder in path.parents if not folder.exists()]


def remove_folders(folders: list[Path]) -> None:
    """Take them away again, as far as nothing is in them."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def json_bytes(content: Any) -> bytes:
    """Indented JSON, in UTF-8; what UTF-8 does not hold, such as odd bytes of a file's name, as escapes."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def write_json(path: Path, content: Any) -> None:
    """Write `content` as indented JSON, atomically."""
    write_atomically(path, json_bytes(content))


def is_pointer(content: bytes) -> bool:
    """Whether this is what Git LFS leaves in the place of a file that was not fetched."""
    return content.startswith(b"version https://git-lfs")


def content_of(path: Path) -> bytes:
    """The bytes of a file. Raises InputError for a pointer of Git LFS."""
    if is_pointer(content := disk.read(path)):
        raise InputError(f"{path}: a pointer of Git LFS, not the file", FETCH)
    return content


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises InputError when it is missing or not JSON."""
    try:
        return json.loads(content_of(path).decode("utf-8"))
    except InputError:
        raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror})", "Check the path, and whether you may read there."
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path}: not a JSON file ({error})", "Mend the place that is named, or take the file as it was written."
        ) from None
    except RecursionError:
        raise InputError(
            f"{path}: not a JSON file that can be read (nested too deeply)", "Take the file as it was written."
        ) from None


def read_notes(path: Path) -> dict[str, str]:
    """The texts beside the tensors of a file that `read_tensors` reads."""
    content = disk.read(path)
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises InputError when it is missing, truncated or another kind of file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file", COPY_WHOLE)
    try:
        return load(content_of(path))
    except InputError:
        raise
    except (safetensors.SafetensorError, OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})", COPY_AGAIN) from None


MANIFEST = "manifest.json"


def listed(content: bytes) -> dict[str, Any]:
    """What a manifest says of a file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    """The files of a manifest by name. Raises InputError when it is something else, or a file lies elsewhere."""
    content = read_json(path)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict) or content.get("format") != "annotated-manifest-1":
        raise InputError(
            f"{path}: not a manifest of this package",
            "If the `manifest.json` is another program's, delete it; the files are then read unchecked.",
        )
    for name, about in files.items():
        if Path(name).name != name or not isinstance(about, dict) or about.keys() != {"bytes", "sha256"}:
            raise InputError(
                f"{path}: {name!r} is no file of this folder with its size and SHA-256",
                "The manifest was changed: copy the folder again, and trust no stranger's.",
            )
    return files


def check_listed(path: Path, about: Mapping[str, Any]) -> None:
    """Raise InputError when a file is not what its manifest says."""
    try:
        size, digest = path.stat().st_size, hashlib.sha256()
        with disk.open(path) as file:
            while size == about["bytes"] and (block := file.read(2**22)):
                digest.update(block)
    except OSError as error:
        raise InputError(
            f"{path}: listed in the manifest, but cannot be read ({error.strerror})",
            "The folder was not copied whole, or the file was deleted: copy it again.",
        ) from None
    if size != about["bytes"]:
        raise InputError(f"{path}: damaged: {size} bytes instead of {about['bytes']}", "Copy the file again.")
    if digest.hexdigest() != about["sha256"]:
        raise InputError(
            f"{path}: damaged: not the bytes that were written (SHA-256)",
            "Copy the file again; if that happens twice, test the disk.",
        )


def write_together(
    folder: Path,
    contents: Mapping[str, bytes],
    manifest: str = MANIFEST,
    large: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Replace files of a folder, and the manifest that lists them, all or none.

    Each is written as NAME.new and read again, then the manifest as its own .new: from that moment all
    are there. `large` files lie there already under NAME.new; given is what the manifest is to say of them.
    Raises InputError when a file cannot be written, or does not come back as it was written.
    """
    finish(folder, manifest)
    for name, content in contents.items():
        write_atomically(folder / f"{name}.new", content)
    files = {name: listed(content) for name, content in contents.items()} | dict(large or {})
    for name, about in files.items():
        check_listed(folder / f"{name}.new", about)
    write_json(folder / f"{manifest}.new", {"format": "annotated-manifest-1", "files": files})
    finish(folder, manifest)


def finish(folder: Path, manifest: str = MANIFEST) -> None:
    """Give the files of a complete `write_together` their names, if it was interrupted; for who alone may write."""
    pending = folder / f"{manifest}.new"
    if not pending.exists():
        return
    for name in [*read_manifest(pending), manifest]:
        if (new := folder / f"{name}.new").exists():
            try:
                disk.rename(new, folder / name)
            except OSError as error:
                raise InputError(f"{folder / name}: cannot be written ({error.strerror})", FREE_SPACE) from None


def current(folder: Path, name: str) -> Path:
    """Where a file of a model folder lies: at NAME.new while a `write_together` that is complete is not finished."""
    new = folder / f"{name}.new"
    return new if (folder / f"{MANIFEST}.new").exists() and new.exists() else folder / name


def manifest_of(folder: Path) -> dict[str, dict[str, Any]] | None:
    """What the newest manifest of a folder says; None where there is none."""
    path = current(folder, MANIFEST)
    return read_manifest(path) if path.exists() else None


def verify(folder: Path) -> bool:
    """Whether a manifest vouches for the files of a folder; without one, nothing is known.

    Raises InputError, naming the file, when one is missing or is not what was written.
    """
    files = manifest_of(folder)
    for name, about in (files or {}).items():
        try:
            check_listed(current(folder, name), about)
        except InputError as error:
            raise InputError(
                f"{error}; if it was changed on purpose, delete {folder / MANIFEST}", "Otherwise copy the file again."
            ) from None
    return files is not None


@contextmanager
def locked(folder: Path, warn: Callable[[str], None]) -> Iterator[None]:
    """Keep a folder for this process alone. The lock ends with the process, however that ends.

    A folder that was not there before does not stay if nothing was written to it. Raises InputError when another
    process has it. Where the system has no such locks, `warn` is told.
    """
    path, alone, fresh = folder / ".lock", False, not folder.exists()
    while not alone:
        try:
            disk.make_folder(folder)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})", FREE_SPACE) from None
        try:
            alone = hold(file, path, warn)
            if alone:
                try:
                    yield
                finally:
                    with suppress(OSError):
                        path.unlink()
                        if fresh:
                            folder.rmdir()  # refused where anything is in it
        finally:
            os.close(file)


def hold(file: int, path: Path, warn: Callable[[str], None]) -> bool:
    """Lock an open file; False where its name has gone to another file meanwhile, which is to be tried then."""
    try:
        if fcntl is None:
            raise OSError(errno.ENOLCK, "no locks")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not path.exists() or os.fstat(file).st_ino != path.stat().st_ino:
            return False
    except BlockingIOError:
        who = os.read(file, 20).decode(errors="replace") or "unknown"
        raise InputError(
            f"{path.parent}: another run is writing there (process {who}): choose another folder",
            "Or wait until the other run is done.",
        ) from None
    except OSError:
        warn(f"{path.parent}: no lock can be had here, so nothing would notice a second run in this folder")
    os.ftruncate(file, 0)
    os.write(file, str(os.getpid()).encode())
    return True
