"""The engine: everything between a serving stack and a verdict, usable without GitHub."""
