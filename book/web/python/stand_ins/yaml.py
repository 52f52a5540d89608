"""The page's copies of YAML files are written in JSON, which is YAML as well."""

from json import loads as safe_load  # noqa: F401
