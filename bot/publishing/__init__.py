"""From the results of a run to pull requests: read as claims, checked, and published on a forge."""
