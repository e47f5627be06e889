"""Renderings of evidence: pull request body, report, terminal tables and plots.

Everything here but `plots` is pure: values in, text out. A number that is not in the evidence is
not shown.
"""
