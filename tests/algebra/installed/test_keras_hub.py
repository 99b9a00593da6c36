"""Llama of Hugging Face in PyTorch against Llama of Keras-Hub in JAX, two layers; with a planted bug, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
transformers = pytest.importorskip("transformers")

import scalify_dl  # noqa: E402

from ..test_models_of_libraries import written  # noqa: E402
from .pairs import library  # noqa: E402

os.environ.setdefault("KERAS_BACKEND", "jax")
hub = library("keras_hub", "Keras-Hub is not installed (pip install keras-hub)")

LAYERS, TOKENS = 2, (4, 32)
OF_A_LAYER = [
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "input_layernorm",
    "mlp.up_proj", "mlp.gate_proj", "mlp.down_proj", "post_attention_layernorm",
]  # fmt: skip
"""Weights of Hugging Face's layers, in the order of Keras-Hub's."""


def backbone() -> Any:
    """Keras-Hub's model, without a bias and with its embedding tied."""
    return hub.models.LlamaBackbone(
        vocabulary_size=512, num_layers=LAYERS, num_query_heads=8, num_key_value_heads=4, hidden_dim=128,
        intermediate_dim=256, layer_norm_epsilon=1e-6, tie_word_embeddings=True,
    )  # fmt: skip


def of_hugging_face(model: Any, exchanged: bool, *values: Any) -> Any:
    """Hidden states of its model with Keras-Hub's weights, before mask and ids."""
    embedding, *weights, last, mask, ids = values
    parameters = {"embed_tokens.weight": embedding, "norm.weight": last}
    parameters["rotary_emb.inv_freq"] = 1.0 / (10000 ** (torch.arange(0, 16, 2).float() / 16))
    for n, weight in enumerate(weights):
        name = OF_A_LAYER[n % len(OF_A_LAYER)]
        if exchanged:
            name = {"mlp.gate_proj": "mlp.up_proj", "mlp.up_proj": "mlp.gate_proj"}.get(name, name)
        rows = 1 if "o_proj" not in name else 2  # dims that a product sums over come first
        parameters[f"layers.{n // len(OF_A_LAYER)}.{name}.weight"] = (
            weight if weight.dim() == 1 else weight.flatten(0, rows - 1).flatten(1).T
        )
    causal = torch.tril(torch.ones(TOKENS[1], TOKENS[1], dtype=torch.bool))
    shown = causal[None, None] & (mask[:, None, None, :] != 0)
    hidden = torch.where(shown, 0.0, torch.finfo(torch.float32).min)
    given = {"input_ids": ids, "attention_mask": hidden}
    return torch.func.functional_call(model, parameters, (), given).last_hidden_state


@pytest.mark.parametrize(("exchanged", "expected"), [(False, "PROVED"), (True, "REFUTED")])
def test_two_models_of_one_architecture_are_one(exchanged: bool, expected: str, tmp_path: Path) -> None:
    keras = backbone()
    shapes = [tuple(weight.shape) for weight in keras.trainable_variables]

    def called(*values: Any) -> Any:
        *weights, mask, ids = values
        return keras.stateless_call(weights, [], {"token_ids": ids, "padding_mask": mask})[0]

    structs = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    structs += [jax.ShapeDtypeStruct(TOKENS, "int32")] * 2
    dist, relate = tmp_path / "dist.mlir", tmp_path / "relate.yaml"
    dist.write_text(jax.jit(called, keep_unused=True).lower(*structs).as_text(debug_info=True))
    relate.write_text(f'ranges: {{"#{len(shapes) + 1}": [0, 512], "#{len(shapes)}": [0, 2]}}')
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=LAYERS, num_attention_heads=8,
        num_key_value_heads=4, head_dim=16, rms_norm_eps=1e-6, attn_implementation="eager", use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaModel(config).eval()
    values = [torch.randn(shape) / 10 for shape in shapes] + [torch.ones(TOKENS, dtype=torch.int32)] * 2
    base = written(tmp_path / "base.fx.txt", lambda *a: of_hugging_face(model, exchanged, *a), *values)
    assert scalify_dl.verify(base, str(dist), mesh="x=1", relate=str(relate)).verdict == expected
