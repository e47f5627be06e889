"""What people see of FlashVector: command line, forges, pull requests and reports.

`bot` drives `layers` and reads `knowledge`; neither of them knows it.
"""
