"""One candidate from patch to verdict: what is asked of both arms, and the gates in their order."""
