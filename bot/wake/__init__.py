"""What woke the bot, and what follows from it. Pure: values in, a decision out.

`events` reads a webhook's payload, `commands` a comment, `facts` is what else is known, `policy`
decides, `owed` says what is due by itself, and `jobs` is what is then done. Nothing here asks
GitHub, reads a file or looks at a clock.
"""
