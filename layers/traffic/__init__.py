"""Recorded traffic: requests and arrivals, tensors in them, changed copies of them."""
