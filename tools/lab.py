"""What `make lab` adds to Jupyter, as its configuration: a chapter that is saved is exported.

What is wrong with it stands in the server's log, as `make export` says it; the package then stays as it was.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import export


def export_saved(model: dict[str, Any], os_path: str, **_: Any) -> None:
    """Write the package's modules when a chapter in a folder `book` was saved."""
    path = Path(os_path).resolve()
    if model["type"] == "notebook" and path.parent.name == "book":
        export.main([], path.parents[1])


c = get_config()  # noqa: F821, which Jupyter defines where it reads this file
c.FileContentsManager.post_save_hook = export_saved
