"""Switches the server's response cache on, as a configuration: recorded requests repeat."""

from shared import carry_out

CLASS = "config"
EXPECT = ("served_from_cache", "answers_from_memory", "does_not_serve")
SIGN = ("served", "tiny_features", "response_cache.enable", "true")
EDITS = (
    (
        "models/tiny_features/config.pbtxt",
        "instance_group [",
        "response_cache { enable: true }\ninstance_group [",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)
