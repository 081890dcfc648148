"""Small but real distributed trainings; each file is a script that a launcher starts once per rank."""
