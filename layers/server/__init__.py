"""The `server` layer: string tensors, which the server converts before a model's code runs."""
