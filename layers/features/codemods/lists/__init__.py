"""Arrays that pass through Python lists: round trips and padding."""
