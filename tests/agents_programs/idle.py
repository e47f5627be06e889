"""Finds nothing to do."""

import sys

sys.stdout.write("Nothing sound is left that is worth a trial.\n")
