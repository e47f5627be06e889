"""What agents know from one candidate to the next: the backlog, when to stop, the file that outlives a run."""
