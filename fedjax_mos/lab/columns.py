"""What the columns of a frame mean: of which model, on whose data, averaged how."""

from typing import NamedTuple

_STORES = {
    "test": "the central test set",
    "valid": "the central validation set",
    "train": "the clients' training examples",
    "held_out": "what was held out of the clients' own examples",
}
_STATISTICS = {
    "mean": "mean over clients, each counting once",
    "std": "standard deviation over clients",
    "worst_decile": "mean over the worst tenth of the clients",
    "jain": "Jain's index over clients (1: all have the same)",
    "q10": "the client at 10 %",
    "q50": "the median client",
    "q90": "the client at 90 %",
}
_COUNTED = {
    "bits_up": "bits that clients have sent so far",
    "bits_down": "bits that clients have received so far",
    "seconds": "seconds of wall time so far, evaluations included",
    "gradients": "gradients of single examples computed so far, roughly",
    "round": "round",
    "squared_gradient_norm": "|grad f|^2 at the server's model, on the training data",
    "client_drift": "mean of |y_i - x|^2 over clients, after a round's local work",
    "direction_error": "mean of |d_i - grad f_i|^2 over clients, d_i their directions",
    "update_variance": "variance of the server's next step over cohorts and batches",
    "update_cosine": "cosine between the server's next step and -grad f",
    "compression_ratio": "|C(mean message) - mean C(message)| / |mean message|",
    "rule_ratio": "|mean change of the messages a rule is for| / |mean message|",
}
_GLOBAL = "the server's model"
_PERSONAL = (
    "every client's own model, after a round's local steps of SGD from the server's"
)


class Meaning(NamedTuple):
    """A metric, spelled out."""

    metric: str  # accuracy, loss, ...
    model: str
    data: str
    average: str

    def __str__(self) -> str:
        return f"{self.metric} of {self.model}, on {self.data}; {self.average}"


def meaning(column: str) -> Meaning | str:
    """What a column of a frame says.

    >>> print(meaning("test_accuracy"))
    accuracy of the server's model, on the central test set; mean over examples
    """
    if column in _COUNTED:
        return _COUNTED[column]
    if column.startswith("local_"):
        return Meaning(
            column.removeprefix("local_").replace("_", " "),
            "the local models while they are trained",
            "the minibatches of this round's cohort",
            "mean over steps, then over clients",
        )
    name, _, statistic = column.partition("_client_")
    personal = name.startswith("personal_")
    name = name.removeprefix("personal_")
    store = next((s for s in _STORES if name.startswith(f"{s}_")), None)
    if store is None:
        store, _, metric = name.partition("_")
        data = f"the store {store}"
    else:
        metric, data = name.removeprefix(f"{store}_"), _STORES[store]
    average = _STATISTICS.get(statistic, "mean over examples")
    model = _PERSONAL if personal else _GLOBAL
    return Meaning(metric.replace("_", " "), model, data, average)


def falls(metric: str) -> bool:
    """Whether less is better: of losses and errors, and of what varies over clients.

    >>> [falls(m) for m in ("test_loss", "own_error", "test_accuracy_client_std")]
    [True, True, True]
    """
    name, _, statistic = metric.partition("_client_")
    if statistic in ("std", "jain"):
        return statistic == "std"
    return name.rstrip("_0123456789").endswith(("loss", "error"))


def in_percent(metric: str) -> bool:
    """Whether a metric is a share, which people read in percent."""
    name, _, statistic = metric.partition("_client_")
    last = name.rsplit("_", 1)[-1]
    return statistic != "jain" and ("accuracy" in name or last.startswith("top"))


def label(column: str) -> str:
    """A column on an axis, short, with its unit.

    >>> label("test_accuracy"), label("held_out_loss_client_std")
    ('test accuracy in %', 'held out loss, std over clients')
    """
    name, _, statistic = column.partition("_client_")
    text = name.replace("_", " ")
    if statistic:
        short = {"q10": "10 %", "q50": "median", "q90": "90 %", "jain": "Jain's index"}
        text += f", {short.get(statistic, statistic.replace('_', ' '))} over clients"
    return f"{text} in %" if in_percent(column) else text
