"""What an agent works with: a copy of the repository that nothing leaves, tools on it, texts as data."""
