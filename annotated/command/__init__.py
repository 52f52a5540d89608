"""The `annotated` command."""
