"""Numbers as people write them."""

import math

from fedjax_mos.lab.columns import in_percent


def signed(metric: str, difference: float) -> str:
    """A difference of two values of a metric, in points where it is a share.

    >>> signed("test_accuracy", 0.012), signed("test_loss", -0.5)
    ('+1.2', '-0.5000')
    """
    if math.isnan(difference):
        return "-"
    return f"{100 * difference:+.1f}" if in_percent(metric) else f"{difference:+.4f}"


def p_value(value: float) -> str:
    """The p of a test.

    >>> p_value(0.0321), p_value(1e-9), p_value(math.nan)
    ('0.032', '< 0.001', '-')
    """
    if math.isnan(value):
        return "-"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def pair(metric: str, mean: float, away: float) -> str:
    """Mean and spread as people write them, none where none is known.

    >>> pair("test_accuracy", 0.97, 0.005), pair("test_loss", 0.2, float("nan"))
    ('97.0 ± 0.5 %', '0.2000')
    """
    if math.isnan(mean):
        return "-"
    percent = in_percent(metric)
    scale, form, unit = (100, ".1f", " %") if percent else (1, ".4f", "")
    text = f"{scale * mean:{form}}"
    return f"{text}{'' if math.isnan(away) else f' ± {scale * away:{form}}'}{unit}"


def in_unit(metric: str, value: float) -> str:
    """A target or a value as people write it.

    >>> in_unit("test_accuracy", 0.9), in_unit("test_loss", 0.25)
    ('90 %', '0.25')
    """
    return f"{100 * value:g} %" if in_percent(metric) else f"{value:g}"


def rounds_text(
    reached: int, seeds: int, mean: float, away: float, at_least: float, ran: int
) -> str:
    """Rounds to a target: T+ where no seed reached it in T rounds.

    Where only some did, a bound that holds for all.

    >>> rounds_text(2, 2, 12.0, 1.5, 12.0, 50), rounds_text(0, 2, 0, 0, 50, 50)
    ('12.0 ± 1.5', '50+')
    >>> rounds_text(1, 2, 10.0, math.nan, 30.0, 50)
    '≥ 30.0 (1/2)'
    """
    if reached == 0:
        return f"{ran}+"
    if reached < seeds:
        return f"\N{GREATER-THAN OR EQUAL TO} {at_least:.1f} ({reached}/{seeds})"
    return f"{mean:.1f}" if math.isnan(away) else f"{mean:.1f} ± {away:.1f}"
