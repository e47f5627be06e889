"""Layer `config`: one change of a model's `config.pbtxt` per knowledge card; no search.

`models` reads what is served, `code` asks a Python model's source what it can bear, `changes`
holds one rule per card, `layer` joins them to the five verbs.
"""
