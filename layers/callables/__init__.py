"""A function under judgement: reference, candidate and inputs, each in a process of its own."""
