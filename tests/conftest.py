"""Shapes and types in signatures are enforced while the tests run."""

from jaxtyping import install_import_hook

install_import_hook("annotated", "beartype.beartype")
