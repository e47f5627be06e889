"""Compiles the pattern of a user agent once and asks for all groups in one match.

By kind: memoised constant that depends on no input; string and integer outputs.
"""

import re

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
PATTERN = r"^(?P<name>[A-Za-z]+)/(?P<major>\d+)(?:\.(?P<minor>\d+))?$"
AGENT = re.compile(PATTERN)


def ref(agents):
    names, majors, minors = [], [], []
    for agent in agents:
        match = re.match(PATTERN, agent)
        names.append(match.group("name") if match else "")
        match = re.match(PATTERN, agent)
        majors.append(int(match.group("major")) if match else -1)
        match = re.match(PATTERN, agent)
        minors.append(int(match.group("minor") or 0) if match else -1)
    return {
        "names": "\n".join(names),
        "version": np.array([majors, minors], dtype=np.int64).T,
    }


def new(agents):
    names = []
    version = np.empty((len(agents), 2), dtype=np.int64)
    for place, agent in enumerate(agents):
        match = AGENT.match(agent)
        if match:
            name, major, minor = match.groups()
            version[place] = int(major), int(minor or 0)
            names.append(name)
        else:
            version[place] = -1
            names.append("")
    return {"names": "\n".join(names), "version": version}


def make(rng, batch):
    forms = [
        "Firefox/%d.%d",
        "Chrome/%d.%d",
        "curl/%d.%d",
        "bad agent %d %d",
        "Opera/%d%d",
        "É/%d.%d",
    ]
    agents = [
        forms[form] % (major, minor)
        for form, major, minor in rng.integers(0, 6, (batch, 3)) * [1, 17, 3]
    ]
    return {"agents": np.array([*agents, None], dtype=object)[:-1]}


make.batch = 1_024
