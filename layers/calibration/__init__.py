"""What this machine can do, measured: bandwidth, matrix rates by dtype, messages; and the card that says so.

`machine.calibrate` measures, `card.write` writes cards that `layers.hardware_cards` reads.
"""
