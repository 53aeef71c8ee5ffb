"""VTrace: what did this vision-language model base its answer on?

    lvlm = vtrace.load("pinhole")
    trace = vtrace.trace(lvlm, "picture.png", "Where is the red star?")
    attribution = vtrace.attribute(lvlm, trace)

Names are imported when they are first used, so that `import vtrace` is instant.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "load": "lvlm",
    "Lvlm": "lvlm",
    "trace": "generate",
    "attribute": "attribution",
    "Attribution": "attribution",
    "compare": "comparison",
    "Comparison": "comparison",
    "read": "documents",
    "save": "report",
    "example": "examples",
    "Example": "types",
    "Trace": "types",
    "Target": "types",
    "Options": "types",
    "Calibration": "types",
    "VTraceError": "errors",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'vtrace' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
