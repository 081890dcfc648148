# SPDX-License-Identifier: Apache-2.0
"""What a run says that it is doing: loading, evaluating, saving, restoring, stopping, finished."""

from __future__ import annotations

from keepstep.model.facts.training import Phase, PhaseSeen
from keepstep.parse.scan.signature import Signature, signature


def _saying(phase: Phase, *patterns: str) -> tuple[Signature, ...]:
    return tuple(signature(pattern, PhaseSeen, phase=phase) for pattern in patterns)


SIGNATURES = (
    signature(
        r"\b[Ss]aved (?:the )?(?:new )?(?:best|final|latest|last) (?:model|checkpoint|weights|state)",
        PhaseSeen,
        phase=Phase.SAVING,
    ),
    *_saying(
        Phase.SAVING,
        r"[Ss]aving (?:the )?(?:final |latest |best |last |full |new |model )?(?:checkpoint|ckpt)s?\b",
        r"[Ss]aving (?:the )?(?:FSDP |final |best |trained |full |merged )?(?:model|weights|optimizer|state dict|training state)\b",
        r"[Ss]aving (?:the |your )?(?:(?:newly|created|merged|trained|fine-?tuned|final|best|last|latest|full|whole|new|LoRA|PEFT"
        r"|FSDP|HF|base|adapter|sharded|consolidated|quantized|converted|unwrapped|actor|critic|policy|reward|EMA|unet) ){1,4}"
        r"(?:model|weights|checkpoint|adapters?|state dict|pipeline)\b",
        r"[Ss]aving current state to ",
        r"[Ss]aving (?:model|states?|snapshot) (?:to|at|in) ",
        r"[Ww]riting checkpoint",
        r"[Ss]ave model (?:to|at|as) ",
        r"[Ss]ave checkpoint (?:to|at|as) ",
        r"Retrieving (?:full model|optimizer) state dict",
        r"Getting (?:full model|optimizer) state dict took",
        r"\[Torch\] Saving ",
        r"Saving Optimizer state",
        r"Model weights saved in",
        r"Started saving checkpoint|Async checkpoint save|Saving item to ",
    ),
    *_saying(
        Phase.RESTORING,
        r"[Rr]estoring (?:parameters|states|from checkpoint|checkpoint|item) ?",
        r"[Ll]oading checkpoint (?:from|shards)",
        r"[Ll]oading the checkpoint",
        r"[Ll]oad checkpoint from ",
        r"[Ll]oading states from ",
        r"[Ll]oading (?:model|weights|optimizer) (?:state )?from ",
        r"loading checkpoint from iteration|loading distributed checkpoint",
        r"=> loading checkpoint",
    ),
    *_saying(
        Phase.RESTORING, r"[Rr]esum(?:ing|ed) (?:training )?from (?:the )?(?:checkpoint|ckpt|/|\S+\.(?:pt|pth|ckpt))"
    ),
    *_saying(
        Phase.EVALUATING,
        r"[Rr]unning validation\b",
        r"[Rr]unning evaluation\b",
        r"[Ss]tarting (?:validation|evaluation)\b",
        r"[Ee]valuating (?:model|on|the|checkpoint|epoch|at)\b",
        r"Validation sanity check|Sanity Checking",
        r"begin validation on|Evaluation \[\d+/\d+\]",
        r"Validat(?:ing|ion):? +\d+%",
        r"Evaluating: +\d+%",
    ),
    *_saying(
        Phase.LOADING,
        r"Grouping texts in chunks",
        r"Running tokenizer on ",
        r"Map: +\d+%",
        r"Map \(num_proc=\d+\): +\d+%",
        r"[Tt]okenizing (?:train |the |validation )?(?:dataset|data|texts?|samples)\b",
        r"Generating train split",
        r"[Pp]reprocessing (?:the )?(?:dataset|data)\b",
        r"building (?:GPT |BERT |T5 )?(?:train, validation, and test )?datasets",
        r"> building dataset index",
        r"Loading (?:train|training|the training) (?:data|dataset)",
        r"Start loading datasets",
        r"[Dd]ownloading (?:data files|the dataset|model weights)",
        r"Saving the dataset \(\d+/\d+ shards\)",
        r"Generating (?:train|validation|test|\w+) split: +\d",
    ),
    *_saying(
        Phase.LOADING,
        r"(?:Tokeniz(?:ing|ation)|Packing|Grouping|Dropping|Converting|Applying (?:chat )?template|Applying formatting|Truncating|Adding EOS|Extracting"
        r"|Flattening|Concatenating|Chunking|Encoding|Filtering|Sample Packing|Preprocessing|Processing (?:dataset|data|samples))\b[^|%\n]{0,80}: +\d{1,3}%\|",
    ),
    *_saying(
        Phase.STOPPING_EARLY,
        r"[Ee]arly[ _-]?stopping (?:triggered|at|after|on|condition|criterion|because|now|reached|counter exceeded)",
        r"Epoch \d+: early stopping",
        r"Restoring model weights from the end of the best epoch",
        r"[Ss]topping training early",
        r"Requesting early stopping",
        r"Signaling Trainer to stop",
        # an estimator that finds its last checkpoint at the last step: a folder that perhaps only this rank has
        r"Skipping training since max_steps has already saved",
    ),
    *_saying(Phase.FINISHED, r"[Tt]raining (?:is |has |was )?(?:complete|completed|finished|done)\b(?! iteration)"),
    *_saying(
        Phase.FINISHED,
        r"[Ff]inished training\b",
        r"[Ff]inished Training\b",
        r"Loss for final step: ",
        r"exiting program at iteration",
        r"\[after training is done\]",
        r"Total training time[: ]",
        r"Training time:? ?\d",
        r"done training in [\d.]+ seconds",
        r"\d epochs completed in [\d.]+ hours",  # of YOLO
        r"sagemaker-training-toolkit INFO +Reporting training SUCCESS|Completed - Training job completed",
        r"# Avg bus bandwidth +: |# Collective test concluded: ",  # of nccl-tests
    ),
    # MLPerf's own log: a run is over, in time or not
    *_saying(Phase.FINISHED, r":::ML[^\n]{0,300}\brun_(?:stop|final)\b"),
)
