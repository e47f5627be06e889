"""Analytic floors of serving a language model: the least time that physics allows, before anything is measured.

Standard library alone, no I/O: arithmetic on declared modules, hardware and layouts. Every formula is + - * / and
`greatest`/`least`, so a quantity may be a float or an array of floats of one shape.
"""
