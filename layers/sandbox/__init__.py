"""What code under judgement runs in: no network, no credentials, bounded in memory, processes, disk."""
