# SPDX-License-Identifier: Apache-2.0
"""Extension modules: which of the loaded ones may be the user's own.

faulthandler lists all that were loaded, not the one that crashed. So only those that clearly belong to no known package
are worth mentioning.
"""

from __future__ import annotations

from keepstep.rules.api import lazy_pattern

_NAMES = """
    absl accelerate ahocorasick aiohttp argon2 arrow asyncpg av awkward bcrypt bitarray blake3 blis blosc blosc2
    boto3 botocore bottleneck brotli bs4 bson catboost cffi cftime chardet charset_normalizer ciso8601
    clickhouse_driver coverage crc32c crypto cryptodome cryptography curl_cffi cv2 cymem cython cytoolz dask
    datasets decord detectron2 dgl dm_tree duckdb editdistance evaluate exllamav2 fairscale fairseq faiss fastavro
    fastparquet fasttext fiona flashinfer flax frozenlist fsspec gcsfs gevent gmpy2 greenlet gridfs gymnasium h5py
    hdf5plugin hiredis hnswlib horovod httptools hydra igraph imagecodecs immutables jpype kenlm keras kiwisolver
    kornia contourpy levenshtein libcst librosa libtpu lightgbm lightning llvmlite lmdb lxml lz4 marisa_trie
    markupsafe matplotlib megatron ml_dtypes mlflow mmcv mmdet mmh3 monai mpi4py mpl_toolkits msgpack msgspec
    multidict multiprocess murmurhash mxnet mypy mypyc nacl netcdf4 netifaces networkx nltk nmslib numba numcodecs
    numexpr nvtx omegaconf onnx onnxruntime openai optax optree optuna orbax orjson osgeo paddle pandas peft pil
    pillow pip polars preshed propcache protobuf psutil psycopg psycopg2 pybase64 pycocotools pycuda pydantic
    pydantic_core pygit2 pymongo pymssql pynvml pyodbc pyopencl pyproj pyroaring pysam pystack pytorch_lightning
    pywt pyximport rapidfuzz rasterio ray rdkit regex requests rpds ruamel ruamel_yaml safetensors scipy
    sentencepiece sentry_sdk setproctitle setuptools shapely simplejson skimage sklearn snappy snowflake soundfile
    soxr spacy sqlalchemy srsly statsmodels symengine sympy tables tensorboard tensorpipe tensorrt tensorstore
    tf_keras thinc thriftpy2 tifffile tiktoken timm tokenizers toolz tornado tqdm transformers tree ujson
    ultralytics umap urllib3 uvloop vllm wandb watchdog watchfiles webrtcvad websockets wrapt xarray xgboost
    xxhash yaml yarl zarr zfpy zmq zope zstandard zstd
"""
_KNOWN = frozenset(_NAMES.split())
# Families, and the kernels that frameworks build at run time under names of their own.
_FAMILY = lazy_pattern(
    r"^(?:amp_c|apex|async_io|bitsandbytes|causal_conv|cpu_ad|cuda|cudf|cupy|deepspeed|dropout_layer_norm"
    r"|fast_layer_norm|fbgemm|flash_attn"
    r"|fused_|google|grpc|jax|mamba_ssm|mkl|multi_tensor|numpy|nvidia|pyarrow|rotary_emb|selective_scan|syncbn"
    r"|tensorflow|torch"
    r"|transformer_engine|triton|xentropy|xformers)"
)


def own_extensions(listed: tuple[str, ...]) -> list[str]:
    """The loaded extension modules that belong to no known package, one per package.

    A bare name with an underscore (``_cyutility``) is part of a package, but does not say of which.
    """
    own: dict[str, str] = {}
    for name in listed:
        parts = [part.lower().lstrip("_") for part in name.split(".")]
        known = any(part in _KNOWN or _FAMILY.match(part) for part in parts)
        if not known and all(parts) and not name.startswith("_"):
            own.setdefault(parts[0], name)
    return list(own.values())


def calls_natively(listed: tuple[str, ...]) -> bool:
    """Whether a line of the user's may have called the framework's native code with none of its Python between.

    PyTorch's functions and JAX's compiled ones are called like that; TensorFlow's (whose Keras brings h5py) never.
    Without a list nothing is known.
    """
    packages = {name.partition(".")[0] for name in listed}
    return not packages or "torch" in packages or ("jaxlib" in packages and "h5py" not in packages)
