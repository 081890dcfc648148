# SPDX-License-Identifier: Apache-2.0
"""Joins the group, and notes in the options who this is."""

import os

import torch.distributed as dist


def start(args):
    args.me = int(os.environ["RANK"])
    args.chief = args.me == 0
    dist.init_process_group(args.backend)
