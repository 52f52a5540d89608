"""The page's copies of YAML files are written in JSON, which is YAML as well."""

import json


def safe_load(text):
    return json.loads(text if isinstance(text, (str, bytes)) else text.read())
