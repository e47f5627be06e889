"""Takes memory without end."""

hold = []
while True:
    hold.append(bytearray(b"x" * 2**24))
