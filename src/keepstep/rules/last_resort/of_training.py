# SPDX-License-Identifier: Apache-2.0
"""Words about the training itself: data, ranks, numbers, checkpoints, programs, frameworks."""

from __future__ import annotations

from keepstep.model.cause import Cause
from keepstep.rules.last_resort.row import row

OF_TRAINING = (
    # data
    row(
        Cause.DATA_BATCH_NOT_DIVISIBLE,
        "a batch that does not divide evenly",
        w3=r"""
            batch[ _-]?size\b.{0,120}\b(?:divisible|multiple|evenly|divide|not equal|must be (?:at least|greater|>))
              |(?:divisible|multiple|evenly|divided)\b.{0,80}\bbatch
            \bcount: 0 feature_map_count|round multiple
        """,
        w2=r"""
            (?:must|should|needs? to|not) ?be (?:evenly )?(?:divisible|divided)|not ?divisible|not a multiple of
              |drop_last|drop_remainder|last (?:partial )?batch|empty (?:batch|tensor)
              |\bbatch (?:is|was|of|has) (?:size )?(?:0|zero|empty)\b
        """,
    ),
    row(
        Cause.DATA_SHAPE_MISMATCH,
        "shapes that do not match",
        w3=r"""
            (?:incompatible|mismatch\w*|inconsistent|different|invalid|wrong|unequal|unknown|undefined|static
              |unexpected) (?:\w+ )?(?:shapes?|sizes?|dimensions?|dims)\b|(?:shapes?|sizes?
              |dimensions?)\b.{0,120}\b(?:mismatch|incompatib\w+|(?:not|doesn't|don't|didn't) match|must match
              |must be (?:the same|equal|compatible)|not (?:equal|compatible|aligned|the same)|differ|expected|but got)
            shapes? \(.{1,40}\) (?:and|vs\.?) |size of tensor \w+ \(\d+\) must match|expects? each tensor to be equal
              |cannot be (?:reshaped|broadcast|multiplied|squeezed)|mat1 and mat2 shapes|input to reshape
              |can ?not squeeze|cannot (?:reshape|batch|broadcast|concatenate)
            expected (?:input|\w+) (?:batch_size|to have|with \d+).{0,60}
              |(?:must|should) have (?:the )?same (?:first |last )?(?:shape|dimension|size|rank|length|number of)
              |static shape|invalid for input of size|sizes of tensors
        """,
        w2=r"""
            \b(?:shape|dimension|ndim|rank of (?:the )?tensor)\b.{0,80}\b(?:must|should|expected|got|invalid)
              |\bshape\s*[\[(].{1,60}\b(?:and|vs|but)\b.{1,40}shape
        """,
    ),
    row(
        Cause.DATA_DTYPE_MISMATCH,
        "types that do not match",
        w3=r"""
            (?:dtypes?|data types?|scalar types?|element types?|floating point types?)\b.{0,120}\b(?:mismatch
              |not match|must|don'?t match|different|expected|same|uniform|identical|but (?:got|found)|supported
              |not in the list|differ)
            (?:mismatched|different|inconsistent|unsupported|expected|incompatible) (?:\w+ )?(?:dtypes?|data types?
              |scalar type|element types?|precisions?)|not implemented for '(?:Half|BFloat16|Float|Int|Long|Double
              |Char|Bool|Byte|Short)'
            expected (?:scalar type|object of (?:scalar )?type|dtype|tensor for argument)
              |\btypes? \([\w:.]{3,30}\) and \w+ types? \(|attr '?(?:dtype|T)'? of
              |is not a supported (?:\w+ )?(?:infeed )?type|must have (?:identical|the same) types?
            (?:float16|bfloat16|float32|float64|int32|int64|half|double|bf16|fp16|fp32)\b.{0,40}\b(?:but|vs\.?|and|!=
              |instead of|does(?: not|n't) match)\b.{0,40}\b(?:float16|bfloat16|float32|float64|int32|int64|half
              |double|bf16|fp16|fp32|string)
        """,
    ),
    row(
        Cause.DATA_CORRUPT_OR_TRUNCATED,
        "unreadable data",
        w3=r"""
            corrupt(?:ed|ion)? (?:record|data|file|image|jpeg|png|shard|archive|sample)
              |truncated (?:record|file|image|jpeg|data|shard|archive)|data ?loss(?:error)?\b
              |(?:record|image|jpeg|png|parquet|tfrecord|arrow|tar|gzip|zip)\b.{0,60}\b(?:corrupt|truncated|invalid
              |broken|unreadable|magic)
            cannot identify image|(?:could not|can'?t|cannot|unable to|failed to|error) (?:decode|decoding|parse
              |parsing|decompress)\b|invalid (?:jpeg|png|image|record|gzip|tar)|unexpected end of (?:data|file|image
              |stream)|magic (?:number|bytes)|bad (?:crc|zip|gzip|magic)|\bcrc\b|checksum
            mmap length is greater|not a (?:gzip|zip|tar|parquet|tfrecord|hdf5)\w* file|expected image \(|ReadError
              |UnidentifiedImage|incomplete (?:read|download|file)|premature end|before the end-of-stream
        """,
        w2=r"\b(?:corrupt\w*|truncated|malformed)\b(?!/ ?incom|\.py\b)|codec can'?t decode|\bEOFError\b",
    ),
    row(
        Cause.DATA_SHARDING_UNEVEN_OR_EMPTY,
        "uneven or empty shards",
        w3=r"""
            (?:not|aren'?t) enough (?:files|elements|samples|examples|shards|data)|unshardable|(?:auto-?)?shard policy
              |uneven (?:workload|inputs?|data|shards?|number)
              |(?:empty|no) (?:shard|dataset|samples|training data|examples)\b
            dataset (?:is|was|has) (?:empty|0|zero|no )|num_samples should be a positive
              |fewer (?:files|shards|samples|examples) than|num_samples=0|zero (?:batches|samples|length)
              |(?<![.\d])0 (?:batches|samples|examples)\b(?! ?[\[(])|length of (?:the )?(?:dataset
              |dataloader).{0,40}(?:0|zero)
        """,
        w2=r"""
            \b(?:shards?|(?:auto|data|file|input)[- ]?sharding)\b.{0,60}\b(?:fewer|less|not|empty|uneven|files)
              |\bStopIteration\b
        """,
    ),
    row(
        Cause.DATA_OUT_OF_RANGE_END_OF_SEQUENCE,
        "input that ran out",
        w3=r"""
            end of (?:sequence|dataset|iterator|input)|(?<!EOFError: )ran out of (?:data|input)|OutOfRange(?:Error)?\b
              |is closed and has insufficient elements
              |(?:iterator|dataset|queue|input)\b.{0,60}\b(?:exhausted|ended|closed|finished|depleted)
              |out of range: .{0,60}(?:queue|sequence|reached)
        """,
    ),
    row(
        Cause.DATA_LABEL_OUT_OF_RANGE,
        "indices or labels out of range",
        w3=r"""
            (?<!list )(?<!tuple )(?<!string )(?<!pop )(?:label|target|class|token|index|indices
              |id)s?\b(?!.{0,120}\bwith size \d)(?!.{0,60}(?:list|tuple|string
              |pop) index).{0,80}\b(?:out[ -]of[ -](?:bounds?
              |range)|outside (?:the )?(?:valid )?range|not in \[0,|is not in \[|>= ?(?:n_classes|num_classes
              |vocab))|`?t >= 0 && t < n_classes|cur_target >= 0|srcIndex < srcSelectDimSize
            index(?:ing)? .{0,40}out of bounds(?! for (?:axis|dimension))|device-side assert(?!ion)
              |received a label value|indices\[.{1,40}\] = -?\d+ is not in|ScatterGatherKernel|vectorized_gather_kernel
        """,
    ),
    row(
        Cause.DATA_LOADER_WORKER_KILLED,
        "a data-loader worker that died",
        w3=r"""
            (?:data ?loader|background|prefetch|reader|pin memory|input|map)\b.{0,40}\b(?:workers?|process(?:es)?
              |thread|subprocess(?:es)?)\b.{0,80}\b(?:killed|exited|died|no longer alive|unexpectedly|dead|terminated
              |abruptly)
            DataLoader worker .{0,40}(?:killed|exited)|workers? (?:are|is) no longer alive
        """,
    ),
    # between ranks
    row(
        Cause.SYNC_COLLECTIVE_MISMATCH,
        "ranks that called different collectives",
        w3=r"""
            mismatch\w*\b.{0,60}\b(?:collectives?|all_?reduce|all_?gather|broadcast|rendezvous|across (?:ranks
              |processes|replicas|hosts))|(?:collectives?|all_?reduce|all_?gather|broadcast|reduce_?scatter|alltoall
              |rendezvous)\b.{0,80}\b(?:mismatch\w*|inconsistent|differ(?:s|ent)?|out of order|not match)
            one rank (?:had|sent|specified|requested)|but another (?:rank|process|worker)
              |differ(?:s|ent)? across (?:ranks|processes|hosts|replicas)|\border .{0,40}\bdiffers?\b
              |different (?:number of|order of|collective).{0,40}(?:ranks|replicas|processes|merge_call|gradients)
            received exit tag|fingerprints?\b.{0,60}\bdiffer|message truncated|MPI_ERR_TRUNCATE
              |op\w* (?:type )?mismatch|unexpected (?:collective|message size|tag)
        """,
    ),
    row(
        Cause.SYNC_DEADLOCK_OR_HANG_WAITING_RANK,
        "ranks that wait for each other",
        w3=r"""
            (?:store[- ]based |monitored ?)?barrier\b(?! (?:\w*stage|task)\b).{0,80}\b(?:tim(?:ed|e)|fail|wait)
              |(?:fail\w*|unable) to pass .{0,20}barrier
              |(?:waiting|stuck|hang|hung|blocked) (?:in|at|on|for) (?:\w+ ){0,4}(?:barrier|collective|all_?reduce
              |all_?gather|broadcast|rendezvous|ranks?|peers?|processes|workers)
            watchdog\b.{0,80}\b(?:stuck|timeout|timed out|progress|work sequence)|\bfailed collective\b
              |(?:stream|task|device|event) ?sync\w* ?time-?out|\btask timeout\b
              |(?:collective|operation|work)\b.{0,80}\b(?:timed out|timeout)|stall(?:ed)? (?:tensor|ranks?|ops?)
              |(?:one or more|submitted by) (?:subset|tensors).{0,60}(?:ranks|waiting)|missing ranks
              |no(?:t mak\w+| making)? progress|deadlock
            failed to meet rendezvous|rendezvous\b.{0,60}\b(?:timed? ?-?out|stuck|waiting)|recv operation to complete
              |participants\b.{0,60}\b(?:arrived|waiting|join)|\bWorkNCCL\b
        """,
        w2=r"""
            \bstill waiting\b|\bhang(?:s|ing)?\b|\bhung\b|\bstuck\b
              |waiting for (?:all )?(?:other|the other|remaining|all) 
        """,
    ),
    row(
        Cause.SYNC_VARIABLE_OUTSIDE_STRATEGY_SCOPE,
        "a variable outside the strategy's scope",
        w3=r"""
            strategy\.scope|strategy scope|cross[-_ ]replica (?:context|mode)|replica context|merge_call
              |colocate_vars_with|same strategy scope|MirroredVariable
              |created (?:in|under) (?:a )?(?:different|this) (?:tf\.distribute\.)?strategy
        """,
    ),
    row(
        Cause.SYNC_MULTIPLE_THREADS_OR_FORK,
        "an unsafe fork or thread",
        w3=r"""
            re-?initialize (?:CUDA|XLA|HIP) in forked|forked subprocess
              |before (?:the )?(?:\w+ )?(?:fork|spawn|xmp\.spawn)|start(?:_| )method|after fork|fork\(\)
              |freeze_support|bootstrapping phase|not fork[- ]safe|daemonic processes|MPI_THREAD_MULTIPLE
              |already initialized\b.{0,60}\b(?:spawn|fork)
        """,
        w1=r"\bfork(?:ed|ing)?\b",
    ),
    row(
        Cause.SYNC_UNUSED_PARAMETERS,
        "parameters without gradients",
        w3=r"""
            unused[_ ]parameters|mark (?:a )?variable ready|not used in producing|did not receive grad
              |marked as ready twice|have finished reduction|static_graph
              |parameters (?:that )?(?:were |are )?(?:not used|unused)|find_unused|no gradients? (?:provided|flow)
              |grad(?:ient)?s? (?:is|are|was|were) None|hooks? (?:fired|called) .{0,40}(?:twice|more than once)
              |already been reduced
        """,
    ),
    row(
        Cause.SYNC_REPLICA_DESYNC,
        "replicas that drifted apart",
        w3=r"""
            out of sync|desync\w*|(?:weights|parameters?|params|gradients|states?|models?)\b.{0,60}\b(?:differ
              |inconsistent|diverge[sd]?|not (?:the same|identical|match)).{0,40}\b(?:ranks?|workers|replicas
              |process(?:es)?)|same (?:model|params?) across|inconsistent between (?:workers
              |ranks)|inconsistent \d+ params|sizes of the same param in process
        """,
    ),
    row(
        Cause.SYNC_RACE_ON_SHARED_STATE,
        "files that several ranks write at once",
        w3=r"""
            directory not empty|file exists\b|\bEEXIST\b|errno:? 17\b|unable to lock file|stale file handle|\bESTALE\b
              |another process (?:is|has)|lock file|race condition|database is locked|text file busy
        """,
    ),
    # numbers
    row(
        Cause.NUMERIC_NAN_OR_DIVERGENCE,
        "NaN or divergence",
        w3=r"""
            \b(?:loss|grad\w*|norm|weights?|activations?|tensor|output|perplexity
              |value)s?\b.{0,40}\b(?:is |was |are |had |has |became |contains? |returned |=
              |:) ?\(?(?:inf or |an? )?(?:nan|inf|infinite|non-?finite)\b|\bnan (?:values?|detected|loss|in|grad\w*
              |encountered)|\bnan\b.{0,20}\bloss|found nan|nan or inf|inf or nan|nan/inf|non-?finite
            loss scale\b.{0,80}\b(?:minimum|reduc\w+|overflow|0\b)
              |(?:loss|training|model) (?:has )?(?:diverged|exploded|is diverging)
              |overflow\b.{0,60}\b(?:skipping|loss scale|grad\w*)|CheckNumerics|Tensor had NaN
              |gradient (?:overflow|explo\w+)|amp/scaler|LossTensor
        """,
    ),
    # checkpoints
    row(
        Cause.CHECKPOINT_CORRUPT_OR_MISSING,
        "a missing or unreadable checkpoint",
        w3=r"""
            (?:(?<!gradient[_ ])(?<!activation[_ ])(?<!\bModel)checkpoint|ckpt|snapshot|weights? file|model file
              |safetensors|orbax|\.pth?\b|\.h5\b|\.ckpt|\.zarr\w*|SaveV2|RestoreV2
              |MergeV2Checkpoints)(?:\S*(?!\S).{0,120}|\S*?)\b(?:not found|no such (?:file|object)
              |does(?: not|n'?t) exist|corrupt\w*|missing|invalid|incomplete|truncated|unable to open|could not|cannot
              |can'?t|failed|not ready|404)
            (?:not find|no|find a valid|unable to (?:open|load|read|find)|could not (?:open|load|read|find)
              |failed to (?:open|load|read|find|resume|restore)|can'?t (?:find|load|open)|missing
              |error (?:opening|reading|loading|restoring|writing)
              |no such file or directory:?) .{0,60}(?:checkpoints?\b|ckpt|snapshot|pytorch_model|model\.safetensors
              |\.pth?\b|zarr|orbax)
            PytorchStreamReader|central directory|invalid load key|pickle data was truncated
              |header ?too ?(?:large|small)|SafetensorError|UnpicklingError|unable to open file .{0,60}\.h5
              |not trained yet
        """,
        w1=r"\b(?:checkpoint|restore|restoring|resum(?:e|ing))\b",
    ),
    row(
        Cause.CHECKPOINT_MISMATCH_KEYS_SHAPES,
        "a checkpoint that does not fit the model",
        w4=r"""
            (?:missing|unexpected) key(?!word)|key\b.{0,120}\bnot found in (?:the )?checkpoint
              |(?:size|shape|dict key|tree|structure) mismatch (?:for|between saved)|error\(s\) in loading state_dict
              |not bound to checkpointed values|unresolved object in checkpoint
            restoring from checkpoint failed|weights? file containing \d+ layers|checkpoint being loaded used
              |(?:save|restore)/Assign|assign requires shapes
              |(?:checkpoint|state_?dict|saved)\b.{0,120}\b(?:mismatch|(?:not|doesn't|don't|didn't) match
              |different (?:shape|structure|world size|number|keys)|missing from|incompatible with)|(?:shapes?|keys?
              |structures?)\b.{0,80}\b(?:checkpoint|state_?dict)\b.{0,60}\b(?:not|differ\w*|mismatch)|(?:shapes?|keys?
              |tensors?|variables?)\b.{0,160}\b(?:(?:not|doesn't|don't|didn't) match|mismatch
              |not found)\b.{0,160}\bcheckpoint
            loaded state dict|parameter group|custom node type mismatch|user-provided restore item
        """,
        w1=r"\b(?:state_?dict|checkpoint|restore)\b",
    ),
    row(
        Cause.CHECKPOINT_SLOW_IO_TIMEOUT,
        "a checkpoint that took too long",
        w3=r"""
            (?:sav(?:e|ing)|writ(?:e|ing)|restor\w+|upload\w*|checkpoint\w*)\b.{0,60}\b(?:timed? ?-?out|took too long
              |deadline|slow|stuck)|(?:timed? ?-?out|deadline exceeded
              |unable to connect to endpoint).{0,80}\b(?:SaveV2|sav(?:e|ing)|checkpoint|RestoreV2)|\b(?:NFS|lustre
              |gpfs|s3|gcs|gs://)\b.{0,60}\b(?:slow|timed? ?-?out|stall
              |not responding)|\blustre(?:error)?: .{0,160}\b(?:was lost|evicted by|failed: rc)\b
        """,
    ),
    # sizes of messages and programs
    row(
        Cause.SERIALIZATION_TOO_LARGE_OR_PROTOBUF,
        "a message that is too large",
        w3=r"""
            \b(?:protobuf|protocol message|protocol buffer|GraphDef|grpc|proto|HloModuleProto)\b.{0,80}\b(?:larger
              |too (?:big|large)|exceeds?|maximum|2 ?GB|serialize|limit|parse)|message larger than max|(?:larger
              |bigger|more) than (?:2 ?GB|4 ?GiB|\d+ bytes)\b.{0,40}|larger than \d+ ?[GM]i?B
            cannot serialize|fail(?:ed|ure) to serialize|error serializing
              |(?:pickl\w+|serializ\w+)\b.{0,80}\b(?:too large|larger|exceeds?|recursion|overflow|limit|2 ?GB)
              |does not fit in 'int'|excessively deep recursion|FUNCTION_SIZE_ERROR|is too large \(
        """,
        w1=r"\b(?:protobuf|serializ\w+|pickl\w+)\b",
    ),
    row(
        Cause.COMPILE_PROGRAM_LIMIT_EXCEEDED,
        "a program too large for the compiler",
        w4=r"""
            too many (?:parameters|instructions|arguments|registers|operands)|instruction count exceeds
              |memory space (?:vmem|smem|cmem|sflag)|(?:v|s|c)mem capacity|too much shared (?:data|memory)
              |requires more parameters|program (?:is )?too (?:large|big)
              |exceeds? (?:the )?(?:maximum )?(?:program|instruction|kernel|argument) (?:size|limit|count)
            compil\w+\b.{0,60}\b(?:did not finish|too long|timed? ?-?out|deadline)
              |out of (?:resource|registers): |shared memory, Required|entry function .{1,80} uses too much
        """,
    ),
    # workers
    row(
        Cause.WORKER_RESTARTED_OR_INCARNATION_MISMATCH,
        "a restarted worker",
        w4=r"""
            incarnation|\bprevious (?:worker|instance|task) [0-9a-f]{6}|mismatched worker ?id
              |(?:worker|task|job|process|it) (?:\w+ )?(?:has |was |probably |likely )*(?:been )?restarted
              |context_id matching|session is not created|config key .{1,60} already exists
              |tried to connect with a different|already exists\b.{0,40}coordination
              |abort\w*: session .{1,40} (?:is )?not found
        """,
    ),
    row(
        Cause.WORKER_PARAMETER_SERVER_LOST,
        "a lost parameter server",
        w4=r"""
            (?:unavailable|failed to connect|socket closed|lost|endpoint read failed|reset by peer).{0,160}/job:ps\b
              |/job:ps\b.{0,160}\b(?:unavailable|failed to connect|socket closed|lost|reset)
              |parameter[- ]server.{0,60}\b(?:lost|died|fail\w*|unavailable|down)
        """,
    ),
    row(
        Cause.PREEMPTION_SIGTERM,
        "preemption or a request to stop",
        w4=r"""
            \bpreempt(?:ed|ion)\b(?! sync manager)
              |^(?!.*(?:closing signal|sending|children|terminating process \d)).*\bSIG(?:TERM|HUP|USR1)\b
              |got signal: (?:1|15|10)\b|DUE TO TIME LIMIT|CANCELLED AT|time limit|spot (?:instance|interruption)
              |job (?:was )?(?:cancell?ed|requeued|killed by)|received signal (?:1|15)\b|termination (?:signal|notice)
              |tasks? [\d,-]+: Terminated|signal 15|exit(?:ed)? (?:code|status) 143
        """,
        w2=r"^\s*(?:\S+ ){0,2}Terminated\b",
    ),
    # the program itself
    row(
        Cause.USER_CODE_EXCEPTION,
        "a mistake in the program",
        w2=r"""
            \b(?:KeyError|AttributeError|NameError|UnboundLocalError|IndexError|ZeroDivisionError|SyntaxError
              |IndentationError|RecursionError)\b ?[:(]
            tensors to be on the same device|is not (?:callable|iterable|subscriptable)|has no attribute
              |unexpected keyword argument|positional arguments?\b
        """,
    ),
    # frameworks
    row(
        Cause.FRAMEWORK_BUG_SEGFAULT,
        "a crash inside a library",
        w3=r"""
            segmentation fault|\bSIGSEGV\b|signal 11\b|illegal memory access|misaligned address
              |internal (?:compiler|tensorizer|assert(?:ion)?) (?:error|failed)|double free
              |malloc\(\): |free\(\): |corrupted (?:size|double-linked)|exit(?:ed)? ?code:? (?:139|-11)\b
              |please (?:file|report) (?:a bug|an issue|this)|invalid pointer|heap corruption|INTERNAL ASSERT
              |unspecified launch failure|compiler bug|\bSIGFPE\b|stack smashing|SIGABRT received|failed to execute XLA
        """,
        w2=r"""
            \b(?:CUDNN|CUBLAS)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR|BAD_PARAM)
              |Assertion .{1,200} failed
        """,
        w1=r"\bCheck failed\b|CHECK failure|terminate called|core dumped",
    ),
    row(
        Cause.FRAMEWORK_UNSUPPORTED_COMBINATION,
        "an unsupported combination",
        w3=r"""
            (?<!None values )\bnot (?:yet |currently |officially |been )*(?:supported|implemented)\b
              |\b(?:un|not )supported (?:\w+ ){0,3}(?:op|ops|operations?|backend|device|platform|combination|feature
              |configuration|mode|strategy|optimizer|arguments?)|\b(?:do|does)(?: not
              |n't) (?:yet |currently )?(?:support|have a (?:sharding strategy|kernel)|implement)\b
            \bonly (?:supports?|supported|works? with|implemented for|available (?:for|with|on|in)|compatible with
              |\d+ \w+ per \w+ supported)\b|\bcannot be (?:used|combined|enabled|mixed)\b|\bcan(?:not|'t) (?:use
              |combine|mix)\b|mutually exclusive|\bincompatible (?:with|device|combination|arguments
              |options)\b|UNIMPLEMENTED|NotImplementedError|UnimplementedError
            no (?:registered|OpKernel|kernel (?:for|registered)|gradient (?:defined|registered)|backend type|lowering
              |sharding)\b|aren'?t (?:yet )?(?:supported|implemented)|isn'?t (?:yet )?(?:supported
              |implemented)|support has (?:not )?been (?:built|removed)|is used but incompatible|please (?:install
              |upgrade|downgrade)|cannot (?:colocate|place
              |merge devices)|not compatible with|unsupported by|requires (?:\w+ ){0,3}(?:>=|or (?:later|newer|higher)
              |to be (?:set|enabled|disabled|installed))
        """,
        w2=r"aggregation method",
    ),
)
