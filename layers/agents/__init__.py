"""Agents: who plans, writes, reads and explains candidates; behind the same gates as any rule.

    planner -> [implementer -> public checks -> accuracy judge] x rounds -> the loop's own trial
            -> performance evaluator -> backlog and memory

`roles` are who works, `service` is how a model is asked, `workbench` what they work with, `memory` what is
known afterwards; `proposer` puts them together, `command` is a program in their place.
An agent proposes. The framework owns checks, clock, reference and verdict: `layers.trial`.
"""
