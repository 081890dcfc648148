# SPDX-License-Identifier: Apache-2.0
"""Guests: other people's kinds of programs, run unmodified, with and without keepstep.

guest.py        what a guest is, and the four ways to run one
catalogue/      the guests, one table per framework; found by walking
programs/       their programs, written from the documentation of their libraries; none imports keepstep
visit.py        one guest run in one way: its folder, its environment, its end
seen.py         what the guard saw of it
judge.py        healthy guests: silent, same losses, nothing left behind
faults.py       what breaks guests, from outside; inject/ is what Python loads before the program
broken.py       broken guests: the right cause and rank, restarted or ended as it should be
score.py        many of them
table.py        the tables for the terminal and for docs/guests.md
"""
