"""What the bot does, one module for each kind of job.

A job prepares (reads GitHub, decides what is measured), has it measured by a program that holds no
credential, and reports. Every step may be repeated: a job that was killed anywhere and is done
again ends the same, and leaves nothing twice.
"""
