# SPDX-License-Identifier: MIT OR Apache-2.0
"""Golden vectors of RT-DETRv2 by transformers on the CPU, float32: make_golden.py FOLDER [CASE...].

Needs torch, transformers 5, Pillow. Each case is a folder with a whole checkpoint of random weights and
golden.safetensors: the picture (`image_u8`, HWC), the backbone's and the encoder's maps (NCHW), the chosen queries,
each decoder layer's logits and boxes, the final ones. preprocess.safetensors and preprocess.json hold what the image
processor makes of one picture under several configurations.

The cases tiny-* are those of the project's first vectors, made by transformers 5.17; their numbers are not made anew.
"""
import json
import os
import sys

import numpy
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file
from transformers import RTDetrImageProcessorPil, RTDetrResNetConfig, RTDetrV2Config, RTDetrV2ForObjectDetection

CASES = {
    # A wide picture, E is not D, another number of points, CSP blocks of other channels.
    "wide": dict(
        size=(64, 128),
        seed=11,
        backbone=dict(layer_type="bottleneck", depths=[1, 1, 2, 1]),
        encoder_hidden_dim=24,
        encoder_ffn_dim=20,
        encoder_attention_heads=4,
        hidden_expansion=0.5,
        decoder_n_points=2,
        decoder_offset_scale=0.7,
        num_labels=3,
    ),
    # A tall picture, layer norms before the attention, transformer layers on two maps, other activations and eps.
    "tall": dict(
        size=(128, 64),
        seed=12,
        backbone=dict(
            layer_type="bottleneck", depths=[1, 2, 1, 1], downsample_in_bottleneck=True, hidden_act="silu"
        ),
        encoder_hidden_dim=16,
        encoder_attention_heads=2,
        encoder_layers=2,
        encode_proj_layers=[2, 1],
        normalize_before=True,
        positional_encoding_temperature=100,
        activation_function="relu",
        encoder_activation_function="silu",
        decoder_activation_function="gelu",
        decoder_method="discrete",
        decoder_n_points=1,
        layer_norm_eps=1e-3,
        batch_norm_eps=1e-2,
        num_labels=4,
    ),
    # Basic blocks of equal channels, a first stage that halves the size, no position embedding.
    "strided": dict(
        size=(128, 192),
        seed=13,
        backbone=dict(
            layer_type="basic", depths=[1, 1, 1, 2], hidden_sizes=[16, 16, 24, 24], downsample_in_first_stage=True
        ),
        encoder_hidden_dim=16,
        encoder_attention_heads=2,
        eval_size=128,
        num_labels=2,
    ),
}


def randomise(model, seed):
    """Weights that keep the signal's size through the layers, and norms that do something."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(shape, low, high):
        return low + (high - low) * torch.rand(shape, generator=generator)

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() >= 2:
                bound = 1.25 * (3 / parameter[0].numel()) ** 0.5
                parameter.copy_(uniform(parameter.shape, -bound, bound))
            elif "norm" in name.lower() and name.endswith("weight"):
                parameter.copy_(uniform(parameter.shape, 0.7, 1.3))
            else:
                parameter.copy_(uniform(parameter.shape, -0.15, 0.15))
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "normalization.bias")):
                buffer.copy_(uniform(buffer.shape, -0.1, 0.1))
            elif name.endswith("running_var"):
                buffer.copy_(uniform(buffer.shape, 0.5, 1.5))
            elif "normalization.weight" in name:
                buffer.copy_(uniform(buffer.shape, 0.7, 1.3))


def picture(height, width):
    """Waves with a bright rectangle, uint8, HWC."""
    y, x = numpy.meshgrid(numpy.arange(height), numpy.arange(width), indexing="ij")
    planes = [127 + 90 * numpy.sin(x * 0.05 + y * 0.021 * c + c) + 35 * numpy.cos(y * 0.2 * c) for c in (1, 2, 3)]
    image = numpy.stack(planes, -1).clip(0, 255).round().astype(numpy.uint8)
    image[height // 8 : height // 3, width // 6 : width // 2] = [240, 235, 220]
    return image


def make(folder, size, seed, backbone, **settings):
    backbone = {"hidden_sizes": [16, 24, 32, 40], "embedding_size": 16, **backbone}
    hidden = settings["encoder_hidden_dim"]
    settings = {
        "d_model": 16,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 24,
        "decoder_attention_heads": 4,
        "decoder_layers": 2,
        "num_queries": 12,
        **settings,
    }
    config = RTDetrV2Config(
        backbone_config=RTDetrResNetConfig(out_features=["stage2", "stage3", "stage4"], **backbone),
        use_pretrained_backbone=False,
        encoder_in_channels=backbone["hidden_sizes"][1:],
        decoder_in_channels=[hidden] * 3,
        **settings,
    )
    torch.manual_seed(seed)
    model = RTDetrV2ForObjectDetection(config).eval()
    randomise(model, seed + 1)
    model.save_pretrained(folder)

    height, width = size
    image = picture(height, width)
    pixels = torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
    encoded = {}
    hook = model.model.encoder.register_forward_hook(lambda _m, _a, out: encoded.update(out=out))
    with torch.no_grad():
        maps = model.model.backbone(pixels, torch.ones(1, height, width, dtype=torch.long))
        out = model(pixels)
    hook.remove()
    encoder = encoded["out"]
    encoder = encoder.last_hidden_state if hasattr(encoder, "last_hidden_state") else encoder[0]
    tensors = {"image_u8": torch.from_numpy(image)}
    tensors |= {f"backbone.{i}": feature for i, (feature, _) in enumerate(maps)}
    tensors |= {f"encoder.{i}": feature for i, feature in enumerate(encoder)}
    for key in (
        "enc_topk_logits",
        "enc_topk_bboxes",
        "intermediate_logits",
        "intermediate_reference_points",
        "logits",
        "pred_boxes",
    ):
        tensors[key] = out[key]
    save_file(
        {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()},
        f"{folder}/golden.safetensors",
        metadata={"source": f"transformers {transformers.__version__}, torch {torch.__version__}, cpu float32"},
    )
    best = out.enc_topk_logits[0].max(-1).values
    print(folder, "scores", out.logits.sigmoid().min().item(), out.logits.sigmoid().max().item())
    print("  smallest gap among the queries", best.sort().values.diff().min().item())


# Small sizes; None: the network's own.
PREPROCESS = {
    "stretch": {"size": {"height": 32, "width": 64}},
    "edges": {"size": {"shortest_edge": 32, "longest_edge": 48}},
    "edges-padded": {
        "size": {"shortest_edge": 24, "longest_edge": 60},
        "do_pad": True,
        "pad_size": {"height": 64, "width": 64},
    },
    "within": {"size": {"max_height": 32, "max_width": 64}},
    "normalized": {
        "size": {"height": 32, "width": 32},
        "do_normalize": True,
        "image_mean": [0.4, 0.5, 0.6],
        "image_std": [0.2, 0.25, 0.3],
        "do_pad": True,
        "pad_size": {"height": 32, "width": 64},
    },
    "unscaled": {"size": {"height": 32, "width": 32}, "do_rescale": False},
    "factor": {"size": {"height": 32, "width": 32}, "rescale_factor": 0.01},
}


def preprocess(folder):
    pictures = {"landscape": picture(75, 130), "portrait": picture(140, 60)}
    tensors = {f"{name}.image_u8": torch.from_numpy(image) for name, image in pictures.items()}
    for case, config in PREPROCESS.items():
        processor = RTDetrImageProcessorPil(**config)
        for name, image in pictures.items():
            out = processor(images=Image.fromarray(image), return_tensors="pt")
            tensors[f"{name}.{case}"] = out["pixel_values"][0].float().contiguous()
    save_file(
        tensors,
        f"{folder}/preprocess.safetensors",
        metadata={"source": f"transformers {transformers.__version__}, Pillow {Image.__version__}"},
    )
    with open(f"{folder}/preprocess.json", "w") as file:
        json.dump(PREPROCESS, file, indent=2)
        file.write("\n")
    print({name: tuple(tensor.shape) for name, tensor in tensors.items()})


folder = sys.argv[1]
wanted = sys.argv[2:] or [*CASES, "preprocess"]
for case in wanted:
    if case == "preprocess":
        preprocess(folder)
    else:
        os.makedirs(f"{folder}/{case}", exist_ok=True)
        make(f"{folder}/{case}", **CASES[case])
