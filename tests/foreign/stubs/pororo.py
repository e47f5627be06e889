"""Stands in for the package of this name: similarity by length, for tests."""


class Pororo:
    def __init__(self, task="", lang=""):
        self.task = task

    def __call__(self, first, second):
        return 1 / (1 + abs(len(first) - len(second)))
