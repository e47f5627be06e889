"""Many small columns: joined, filled and computed one by one."""
