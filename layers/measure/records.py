"""What the generator records of one request; shared by its process and by the parent."""

from __future__ import annotations

import numpy as np

# Times are seconds since the block's start; `scheduled_s` equals `sent_s` at fixed in-flight load.
# `offset` and `length` say where the response's bytes lie in the block's spool.
RECORD = np.dtype(
    [
        ("index", "<i8"),
        ("scheduled_s", "<f8"),
        ("sent_s", "<f8"),
        ("done_s", "<f8"),
        ("code", "<i4"),
        ("offset", "<i8"),
        ("length", "<i8"),
    ]
)

# `code` is the gRPC status (0: OK), or one of these.
OK = 0
UNANSWERED = -1  # sent, and no answer when the block's deadline passed
NOT_SENT = -2  # the block ended before a slot was free

ORDER_FILE = "order.npy"
ARRIVALS_FILE = "arrivals_s.npy"
SPANS_FILE = "spans.npy"  # of a request file that stands in for the recording
RECORDS_FILE = "records.npy"
RESPONSES_FILE = "responses.bin"
