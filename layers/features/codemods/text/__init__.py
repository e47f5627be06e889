"""Bytes to text, text to bytes, and regular expressions."""
