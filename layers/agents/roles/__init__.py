"""Who works on a candidate: planner, implementer, accuracy judge, performance evaluator, and what they are told."""
