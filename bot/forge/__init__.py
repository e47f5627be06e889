"""Forges: where pull requests go. `base` is the contract, `local` a directory."""
