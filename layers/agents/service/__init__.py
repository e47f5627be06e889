"""Asking a model: a service that speaks the Messages API, conversations, what they cost and what was said."""
