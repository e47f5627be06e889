"""Look-ups of many keys in a dictionary, in Python and natively."""
