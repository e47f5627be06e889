"""pandas frames and dates that are made or walked per request."""
