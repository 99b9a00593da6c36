"""Plan tables of whole training steps, made by replicating what nnScaler emits: Llama- and DeepSeek-shaped models,
tensor, pipeline, data and expert parallel, with micro-batches (docs/plans.md).

    write_plan(directory, llama(LLAMA_8B), Shape(dp=512))
"""

from .deepseek import DeepSeek, deepseek
from .llama import Llama, llama
from .plan import Shape, write_plan
from .step import Step

__all__ = ["DeepSeek", "Llama", "Shape", "Step", "deepseek", "llama", "write_plan"]
