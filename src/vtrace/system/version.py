"""The version of the package, for those who may not import its root."""

__version__ = "0.1.0"
