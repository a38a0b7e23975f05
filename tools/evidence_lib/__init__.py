"""Time to accuracy: trainings of three kinds with every contender, and times of their steps."""
