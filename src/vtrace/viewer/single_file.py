"""One self-contained HTML file from a template, a style, modules and data, under a policy that forbids all else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

LIVE = "connect-src 'self'; "
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)


def single_file(
    template: Path, title: str, style: str, script: str, data: Mapping[str, Any], live: bool = False
) -> str:
    """The template with its slots filled."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    slots = {
        "POLICY": security_policy(style, script, live),
        "TITLE": escape(title),
        "STYLE": style,
        "SCRIPT": script,
        "DATA": text.replace("<", "\\u003c"),  # so that nothing in it can close the surrounding element
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: slots[slot[1]], template.read_text("utf-8"))


def security_policy(style: str, script: str, live: bool = False) -> str:
    """A content-security policy that allows this script, this style and embedded pictures, and nothing else.

    Only a live page may make requests, and only to the server that it came from.
    """
    return (
        f"default-src 'none'; {LIVE if live else ''}script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def joined_modules(files: Sequence[Path]) -> str:
    """Modules as one script, in the order of their imports. All names are distinct, so import lines can be dropped."""
    texts = [file.read_text("utf-8") for file in files]
    return "\n".join(re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE) for text in texts)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
