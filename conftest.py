"""Tests see two CPU devices; compile time dominates, so XLA optimises little."""

import jax

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_disable_most_optimizations", True)
