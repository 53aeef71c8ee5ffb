"""docs/reference/errors.md explains every error message, and none that does not exist."""

from __future__ import annotations

import sys

from support.pages import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from error_messages import error_messages, explained_messages


def test_every_message_has_a_cause_and_a_cure():
    missing = sorted(message.text for message in error_messages().keys() - explained_messages())
    assert missing == [], "run: python scripts/error_messages.py"


def test_every_message_of_the_page_exists():
    assert sorted(message.text for message in explained_messages() - error_messages().keys()) == []


def test_gaps_choices_and_exit_codes_are_read_from_the_source():
    found = error_messages()
    texts = {message.text: message.exit_code for message in found}
    assert texts["gamma is …; it must be zero or positive"] == 2
    assert texts["unknown dtype …; use one of: …"] == 3
    assert {"region … is on picture …, but there is …", "region … is on picture …, but there are …"} <= texts.keys()
    assert len(found) > 300
