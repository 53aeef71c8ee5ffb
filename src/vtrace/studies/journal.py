"""What a study has found out about each item, a line of JSON each, so that it goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..system.files import append_line, locked, read_lines


class Journal:
    """Values by item, all found with the same settings. Only one process may write to it at a time."""

    def __init__(self, path: Path, settings: dict[str, Any]):
        self.path, self.settings = path, settings
        self._lock = locked(path)
        try:
            self.known = {entry["item"]: entry["value"] for entry in self._entries()}
        except BaseException:
            self._lock.close()
            raise

    def _entries(self) -> list[dict[str, Any]]:
        entries = read_lines(self.path)
        for entry in entries:
            if not isinstance(entry, dict) or not {"item", "settings", "value"} <= entry.keys():
                raise InputError(f"{self.path} is damaged; move it away and run again")
            for key, value in self.settings.items():
                if (before := entry["settings"].get(key)) != value:
                    raise InputError(
                        f"{self.path.parent} was made with {key} {before!r}, not {value!r}; choose another --out"
                    )
        return entries

    def add(self, item: str, value: Any) -> None:
        append_line(self.path, {"item": item, "settings": self.settings, "value": value})
        self.known[item] = value

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.close()
