"""Measuring: load on a served stack, blocks of it, their void rules, and what they say.

`load` drives one generator process (`generator`, `swarm`); `blocks` makes measured blocks of its
results; `checks` and `stats` are pure; `sustained` searches for the rate held at the SLO.
"""
