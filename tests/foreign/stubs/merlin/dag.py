"""Stands in for the package of this name: columns by name, for tests."""


class DictArray(dict):
    """A dict of arrays."""
