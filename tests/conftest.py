"""Shapes and types in signatures are enforced while the tests run.

The grammar is left out: it has no tensors, and checking each of its millions of calls would take minutes. Its tests
compare every pair that it writes.
"""

from pathlib import Path

from hypothesis import settings
from jaxtyping import install_import_hook

import annotated

MODULES = sorted(
    path.stem for path in Path(annotated.__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__")
)
install_import_hook([f"annotated.{name}" for name in MODULES if name != "grammar"], "beartype.beartype")
settings.register_profile("without a deadline", deadline=None)  # a busy machine is no bug
settings.load_profile("without a deadline")
