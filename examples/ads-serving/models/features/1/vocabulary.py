import os


def load_vocabularies(directory):
    """Read every NAME.txt of the directory: one value per line, the id is the line number."""
    vocabularies = {}
    for filename in sorted(os.listdir(directory)):
        if not filename.endswith(".txt"):
            continue
        with open(os.path.join(directory, filename), encoding="utf-8") as f:
            values = f.read().splitlines()
        vocabularies[filename[:-4]] = {value: i + 1 for i, value in enumerate(values)}
    return vocabularies
