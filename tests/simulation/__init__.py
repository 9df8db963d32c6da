"""The simulator: the real driver loop, planner, kernel and state in a world made from one seed."""
