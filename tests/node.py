"""Scripts of the page, asked without a browser."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).resolve().parent / "web"


def answered(script: str, question: Any) -> Any:
    """What a script of `tests/web` writes as JSON, asked in JSON."""
    command = ["node", str(SCRIPTS / f"{script}.mjs")]
    done = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
