"""Silent bugs that were published of training frameworks, each as one step of forward and backward in JAX, per rank,
with its right twin: written from public descriptions."""
