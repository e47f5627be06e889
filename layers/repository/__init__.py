"""The serving repository: git, patches, its stack at a commit, what its builds leave."""
