"""Results save and show themselves by way of the registered presenter."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtrace.report import save as report
from vtrace.system.presentation import PRESENTER, Presentable


class Presenter:
    def save(self, thing: object, path: str | Path) -> Path:
        return Path(path).with_suffix(".saved")

    def notebook(self, thing: object) -> dict[str, str]:
        return {"text/html": f"<p>{type(thing).__name__}</p>"}


@pytest.fixture
def unregistered(monkeypatch):
    monkeypatch.setattr(PRESENTER, "_provider", None)


@pytest.mark.usefixtures("unregistered")
def test_a_result_is_saved_and_shown_by_the_registered_presenter():
    asked: list[Presenter] = []

    def presenter() -> Presenter:
        asked.append(Presenter())
        return asked[-1]

    PRESENTER.by(presenter)
    assert asked == []  # reports are imported only when something is saved or shown
    assert Presentable().save("a.html") == Path("a.saved")
    assert Presentable()._repr_html_() == "<p>Presentable</p>"
    assert len(asked) == 2


@pytest.mark.usefixtures("unregistered")
def test_without_a_presenter_it_says_what_to_import():
    with pytest.raises(RuntimeError, match="no presenter is registered; import vtrace first"):
        Presentable().save("a.html")


def test_the_package_registers_its_reports(attribution, tmp_path):
    assert attribution._repr_html_() == report.notebook(attribution)["text/html"]
    assert attribution.save(tmp_path / "a.json") == tmp_path / "a.json"
