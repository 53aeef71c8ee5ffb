"""The version of the package, for modules that may not import its root."""

__version__ = "0.1.0"
