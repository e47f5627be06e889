"""Agents: who plans, writes, reads and explains candidates; behind the same gates as any rule.

    planner -> [implementer -> public checks -> accuracy judge] x rounds -> the loop's own trial
            -> performance evaluator -> backlog and memory

An agent proposes. The framework owns checks, clock, reference and verdict: `layers.trial`.
"""
