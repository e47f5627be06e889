"""All that knows GitHub: its API, git over HTTPS, and what a branch of ours may hold.

errors        pure: what GitHub answered, as errors for people
api           requests: time-outs, waiting, repeating; PyGithub's connection below
auth          credentials from the environment; installation tokens with the least permissions
client        connect: the bot's login and the repositories that it works on
replies       pure: GitHub's answers, checked, as data
contents      a repository's branches, files and commits
repository    its pull requests, comments, labels, check runs and dashboard
transport, commits, archive, forge, knowledge    git, and what is built on all of it
"""
