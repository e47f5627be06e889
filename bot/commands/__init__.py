"""The subcommands of `fvec`, one module each.

A module offers `add(commands)`, which declares its arguments, and a handler that returns an
`Outcome`. Handlers never print and never exit; engine imports happen inside them, so that
`fvec --help` is quick and a host without the engine can still use the rest.
"""
