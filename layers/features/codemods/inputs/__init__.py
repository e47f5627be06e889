"""How a request's inputs are looked up and read."""
