"""VTrace: what did this vision-language model base its answer on?

    lvlm = vtrace.load("pinhole")
    trace = vtrace.trace(lvlm, "picture.png", "Where is the red star?")
    attribution = vtrace.attribute(lvlm, trace)

Names are imported when they are first used, so that `import vtrace` is instant.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .system.embedded_world import EMBEDDED_WORLD
from .system.presentation import PRESENTER
from .system.verification import VERIFIER
from .system.version import __version__

if TYPE_CHECKING:
    from .attribution.options import Options as Options
    from .attribution.result import Attribution as Attribution
    from .benchmarks.embedded import example as example
    from .credit.credit import Credit as Credit
    from .errors import VTraceError as VTraceError
    from .faithfulness.verify import verify as verify
    from .faithfulness.what_if import what_if as what_if
    from .lvlm.load import load as load
    from .lvlm.model import Lvlm as Lvlm
    from .methods.comparison import Comparison as Comparison
    from .methods.comparison import compare as compare
    from .methods.contrast import contrast as contrast
    from .methods.vtrace import attribute as attribute
    from .report.documents import read as read
    from .report.save import save as save
    from .tracing.generate import trace as trace
    from .types import Calibration as Calibration
    from .types import Example as Example
    from .types import Target as Target
    from .types import Trace as Trace

if sys.platform == "darwin":  # operations that Apple GPUs lack run on the CPU; PyTorch reads this when it is imported
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")

_HOME = {
    "load": "lvlm.load",
    "Lvlm": "lvlm.model",
    "trace": "tracing.generate",
    "attribute": "methods.vtrace",
    "Attribution": "attribution.result",
    "verify": "faithfulness.verify",
    "what_if": "faithfulness.what_if",
    "contrast": "methods.contrast",
    "compare": "methods.comparison",
    "Comparison": "methods.comparison",
    "read": "report.documents",
    "save": "report.save",
    "example": "benchmarks.embedded",
    "Example": "types",
    "Trace": "types",
    "Target": "types",
    "Options": "attribution.options",
    "Calibration": "types",
    "Credit": "credit.credit",
    "VTraceError": "errors",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vtrace' has no attribute {name!r}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="IProgress not found")  # red in a notebook, and of no use there
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


PRESENTER.by(lambda: import_module(".report.save", __name__))
EMBEDDED_WORLD.by(lambda: import_module(".benchmarks.shapes.membership", __name__))
VERIFIER.by(lambda: import_module(".faithfulness.verify", __name__))
