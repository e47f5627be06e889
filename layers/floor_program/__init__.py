"""Floors as one file: `python floor.pyz`, with nothing but Python, for whoever has SKILL.md beside it.

`scripts/build_floor.py` packs it with `layers.floor`, the hardware cards and the stop thresholds.
"""
