"""Switches the server's response cache on: recorded requests repeat, real ones do not.

Source: A55, https://github.com/vllm-project/vllm/issues/52884.
"""

CLASS = "config"
# Where every request is new, it saves nothing.
EXPECT = (
    "served_from_cache",
    "answers_from_memory",
    "does_not_serve",
    "below_noise_floor",
    "boundary_out_of_reach",
    "slower",
    "last_look_reached",
)
EDITS = (
    (
        "models/tiny_features/config.pbtxt",
        "instance_group [",
        "response_cache { enable: true }\ninstance_group [",
    ),
)
