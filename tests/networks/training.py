"""Optimizers, with the settings that change what they compute."""

from __future__ import annotations

from .choices import Choices


def optimizer(choices: Choices) -> tuple[str, str]:
    """The update in both languages."""
    choice = choices.weighted((("sgd", 5), ("adam", 3), ("adamw", 2)))
    if choice == "sgd":
        rate, settings = choices.pick((0.1, 0.03, 0.5)), ""
        if choices.chance(60):
            settings += f", momentum={choices.pick((0.9, 0.5))}"
            settings += ", nesterov=True" if choices.chance(40) else ""
        settings += f", weight_decay={choices.pick((0.01, 0.1))}" if choices.chance(40) else ""
        return f"train.sgd(loss, {rate}{settings})", f"torch.optim.SGD(parameters, {rate}{settings})"
    # with the usual eps, a gradient that is zero but for rounding would move a parameter by the whole rate
    rate, settings = choices.pick((0.01, 0.001, 0.1)), f", eps={choices.pick((1e-3, 1e-2))}"
    settings += f", betas={choices.pick(((0.9, 0.999), (0.8, 0.95)))}" if choices.chance(50) else ""
    settings += f", weight_decay={choices.pick((0.01, 0.1))}" if choices.chance(50) or choice == "adamw" else ""
    name = {"adam": "Adam", "adamw": "AdamW"}[choice]
    return f"train.{choice}(loss, {rate}{settings})", f"torch.optim.{name}(parameters, {rate}{settings})"
