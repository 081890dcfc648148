"""The lab: real faults on real, small trainings, and recordings of what they print."""
