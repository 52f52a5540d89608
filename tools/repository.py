"""Where the book's repository lies, from its git remote."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit


def repository_of(remote: str) -> str | None:
    """The address of a repository's page from that of its git remote; None when it is a folder on this machine."""
    if match := re.fullmatch(r"(?:ssh://)?[\w.-]+@([\w.-]+)[:/](.+?)(?:\.git)?/?", remote):
        return f"https://{match[1]}/{match[2]}"
    parts = urlsplit(remote)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return f"https://{parts.hostname}{parts.path.rstrip('/').removesuffix('.git')}"


def origin(root: Path) -> str:
    """The address of the remote called origin, without a password; a folder as it is; empty where there is none."""
    done = subprocess.run(["git", "-C", str(root), "remote", "get-url", "origin"], capture_output=True, text=True)
    remote = done.stdout.strip() if done.returncode == 0 else ""
    return repository_of(remote) or remote
