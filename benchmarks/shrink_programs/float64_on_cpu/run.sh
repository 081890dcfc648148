XLA_FLAGS=--xla_force_host_platform_device_count=4 JAX_PLATFORMS=cpu python train.py --hidden 64
