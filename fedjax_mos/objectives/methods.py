"""The local objectives of methods that change the loss only: sums of `terms`.

MOON: Li et al., CVPR 2021 [li2021moon]. FedMLB: Kim et al., ICML 2022 [kim2022fedmlb].
FedLC: Zhang et al., ICML 2022 [zhang2022fedlc]. FedNTD: Lee et al., NeurIPS 2022
[lee2022fedntd]. FedDecorr: Shi et al., ICLR 2023 [shi2023feddecorr].
"""

from fedjax_mos.components import cite
from fedjax_mos.objectives import terms
from fedjax_mos.objectives.base import Objective, shaped
from fedjax_mos.types import NonNegative, Positive


@cite("li2021moon")
def moon(*, weight: NonNegative = 1.0, temperature: Positive = 0.5) -> Objective:
    """MOON: cross-entropy, and features contrasted with those of earlier models.

    The features are those before the classifier. One tree per client.
    """
    parts = [terms.cross_entropy(), terms.contrastive(weight, temperature)]
    return shaped(parts, keeps_model=True)


@cite("kim2022fedmlb")
def fedmlb(*, ce_weight: NonNegative = 1.0, kl_weight: NonNegative = 1.0) -> Objective:
    """FedMLB: cross-entropy, also of branches through the received model's stages."""
    return shaped([terms.cross_entropy(), terms.multi_branch(ce_weight, kl_weight)])


@cite("zhang2022fedlc")
def fedlc(*, temperature: Positive = 1.0, include_true: bool = True) -> Objective:
    """FedLC: cross-entropy of logits calibrated by the client's class counts."""
    return shaped([terms.calibrated(temperature, include_true=include_true)])


@cite("lee2022fedntd")
def fedntd(
    *,
    ce_weight: NonNegative = 1.0,
    weight: NonNegative = 1.0,
    temperature: Positive = 1.0,
) -> Objective:
    """FedNTD: cross-entropy, and distillation of the classes that are not the label.

    The paper's ce_weight is 1, FedACG's program has 0.7.
    """
    parts = [terms.cross_entropy(ce_weight), terms.not_true(weight, temperature)]
    return shaped(parts)


@cite("shi2023feddecorr")
def feddecorr(*, weight: NonNegative = 0.01) -> Objective:
    """FedDecorr: cross-entropy, and a penalty on correlated features."""
    return shaped([terms.cross_entropy(), terms.decorrelation(weight)])
