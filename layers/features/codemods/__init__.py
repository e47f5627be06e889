"""The rewrites of feature code, one module each; `table.py` lists them."""
