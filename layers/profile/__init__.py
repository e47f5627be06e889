"""Where the time goes: sampled stacks of the live model processes, and the phases that they fall into."""
