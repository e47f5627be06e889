"""Switches the server's response cache on, as a configuration: recorded requests repeat."""

from shared import carry_out

CLASS = "config"
# A request of a timed block is new, so a cache of requests is of no use there.
EXPECT = (
    "served_from_cache",
    "answers_from_memory",
    "does_not_serve",
    "below_noise_floor",
    "boundary_out_of_reach",
    "slower",
    "last_look_reached",
    "gain_not_confirmed",
)
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
