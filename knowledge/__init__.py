"""The cards: what is known about serving stacks, and the code that loads, checks and refines it."""
