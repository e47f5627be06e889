"""The loop around trials: which candidate next, on top of what, what it taught, and how a killed run goes on."""
