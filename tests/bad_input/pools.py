"""Values that are right and wrong for each argument, by the documentation.

Written from README, docs/naming.md, `fedjax-mos COMMAND --help` and `fedjax-mos list`,
never from the code that checks. All right values of a table go together; digits has
1,078 training examples.
"""

from typing import Any, NamedTuple

NAN_INF = ("nan", "inf", "-inf")
BIG = "99999999999999999999"
MOST = "2147483647"  # the largest count; where it shapes arrays they fit no machine


class Pool(NamedTuple):
    """Texts of one argument."""

    read: Any  # text -> value
    good: tuple[str, ...]
    bad: tuple[str, ...]


def count(*good: str, bad: tuple[str, ...] = ()) -> Pool:
    """A whole number of at least one."""
    return Pool(int, good, ("0", "-1", "-99", "2147483648", BIG, "x", "1.5", *bad))


def name(*good: str, bad: tuple[str, ...] = ()) -> Pool:
    """One of the names that `fedjax-mos list` shows."""
    return Pool(str, good, ("", "nope", good[0].upper(), f"{good[0]} ", "../x", *bad))


ALGORITHMS = (
    "fedavg",
    "fedprox",
    "fedavgm",
    "fedopt",
    "slowmo",
    "fedadagrad",
    "fedadam",
    "fedyogi",
    "fedams",
    "scaffold",
    "feddyn",
    "feddc",
    "fedcm",
    "mime",
    "stem",
    "fedglomo",
    "fedmos",
    "fedmos_release",
    "fedacg",
    "moon",
    "fedlc",
    "fedntd",
    "fedcams",
    "fedbaca",
)
FIELDS: dict[str, Pool] = {
    "algorithm": name(*ALGORITHMS),
    "sampler": name("ucs", "md", "acs", "systematic", "ucs_release"),
    "partition": name(
        "iid", "classes", "dirichlet", "shards", "quantity", bad=("npz:", "npz:no.npz")
    ),
    "model": name("logistic", "mlp", bad=("cnn", "fedmos_mnist_cnn")),
    "loss": name("cross_entropy", bad=("mse",)),
    "uplink": name("identity", "compressed", "feedback", "nla", "aa_compressed"),
    "downlink": name("identity", "nla_down"),
    "broadcast": name("identity"),
    "dataset": name(
        "digits",
        bad=(
            "digit",
            "npz:",
            "csv:",
            "folder:",
            "tfds:",
            "npz:no.npz",
            "no.csv",
            "my.xls",
        ),
    ),
    "clients": count("20", "40", "60", bad=("1079", "100000000")),
    "cohort": count("1", "2", "10", bad=("61", MOST)),
    "rounds": count("5", "6", "100", MOST),
    "steps": count("1", "3", "20", bad=(MOST,)),
    "epochs": count("1", "3", bad=(MOST,)),
    "batch_size": count("1", "10", "64", bad=(MOST,)),
    "eval_every": count("1", "5", "1000"),
    "pool": count("10", "15", "20", bad=("61",)),
    "pool_every": count("1", "50"),
    "seed": Pool(
        int, ("0", "7", "2147483647"), ("-1", "2147483648", BIG, "x", "0.5", "1e3")
    ),
    "data_seed": Pool(int, ("0", "1", "4294967296"), ("-1", "x", "0.5", "1e3")),
    "held_out": Pool(float, ("0", "0.2", "0.5"), ("1", "-0.1", "1.5", "x", *NAN_INF)),
    "stop_at": Pool(float, ("0.5", "1"), ("0", "-1", "2", "x", *NAN_INF)),
    "importance": name("size", "uniform"),
    "rows": name("auto", "memory", bad=("ram",)),  # on disk only one seed at a time
    # Others need methods of some kind.
    "diagnostics": Pool(lambda text: (text,), ("squared_gradient_norm",), ("nope", "")),
    "per_client": name("off", "global", "personal", bad=("local",)),
    "precision": name("default", "highest", "float32", bad=("exact", "fp8", "tf32")),
    "backend": name(
        "auto",
        "vmapped",
        "chunked:2",
        "sharded",
        "spread:4",
        f"chunked:{MOST}",
        bad=(
            *("chunked:0", "chunked:-1", "chunked:x", "vmapped:2", "gpu", "auto:1"),
            *("mesh", "mesh:0x1", "mesh:1", "mesh:999x999"),
        ),
    ),
}

POSITIVE = ("0", "-0.1", "1e39", "1e-46", "abc", "", "0.1.2", "None", *NAN_INF)
NOT_NEGATIVE = tuple(v for v in POSITIVE if v != "0")
UNIT = (*NOT_NEGATIVE, "1.1", "-1e-9")
_OFF = tuple(v for v in NOT_NEGATIVE if v != "None")  # none is off
LR = Pool(float, ("0.001", "0.1", "1", "5e-3", "1e-30"), POSITIVE)
FACTOR = Pool(float, ("0", "0.5", "1", "3"), NOT_NEGATIVE)
SHARE = Pool(float, ("0", "0.5", "1", "0.999"), UNIT)
SWITCH = Pool(str, ("true", "false"), ("maybe", "2", "", "yes!"))
WHOLE = count("1", "2", bad=("", "none", "true", "inf"))


class Own(NamedTuple):
    """Options in the setting that has them: fields, kind of component, pools."""

    fields: dict[str, str]
    kind: str
    options: dict[str, Pool]


OPTIONS = (
    Own(
        {"algorithm": "fedmos"},
        "algorithm",
        {
            "lr": LR,
            "storm": SHARE,
            "prox": FACTOR,
            "server_momentum": SHARE,
            "first_batch": Pool(
                str, ("full", "step"), ("half", "", "none", "0", "-3", "1.5")
            ),
        },
    ),
    Own({"algorithm": "fedavg"}, "algorithm", {"lr": LR, "server_lr": FACTOR}),
    Own(
        {"algorithm": "fedams"},
        "algorithm",
        {
            "lr": LR,
            "b1": SHARE,
            "b2": SHARE,
            "eps": Pool(float, ("1e-3", "1"), POSITIVE),
            "option": Pool(int, ("1", "2"), ("0", "3", "x", "1.5", "")),
            "bias_correction": SWITCH,
        },
    ),
    Own({"algorithm": "feddyn"}, "algorithm", {"lr": LR, "dyn": FACTOR}),
    Own({"algorithm": "fedcm"}, "algorithm", {"lr": LR, "mix": SHARE}),
    Own(
        {"algorithm": "moon"},
        "algorithm",
        {"weight": FACTOR, "temperature": Pool(float, ("0.5", "2"), POSITIVE)},
    ),
    Own(
        {"algorithm": "lag"},
        "algorithm",
        {"lr": LR, "horizon": WHOLE._replace(bad=(*WHOLE.bad, MOST))},
    ),
    Own(
        {"algorithm": "fedavg"},
        "local",
        {
            "clip": Pool(float, ("0.1", "10"), ("0", *_OFF)),
            "weight_decay": FACTOR._replace(bad=_OFF),
            "micro_batch": WHOLE,
        },
    ),
    Own(
        {"algorithm": "fedavg", "uplink": "compressed"},
        "uplink",
        {
            "fraction": Pool(float, ("0.125", "1"), (*POSITIVE, "1.5")),
            "codec": Pool(str, ("top_k", "random_k", "sign"), ("zip", "", "TOP_K")),
            "bits": Pool(int, ("2", "4", "16"), ("1", "0", "-1", "17", "40", "x", "")),
            "per_tensor": SWITCH,
        },
    ),
    Own({"algorithm": "fedavg", "uplink": "nla"}, "uplink", {"kappa": FACTOR}),
    Own(
        {"sampler": "ucs"},
        "sampler",
        {"weights": Pool(str, ("eq28",), ("none", "", "EQ28", "1"))},
    ),
    Own(
        {"sampler": "power_of_choice", "cohort": "5", "clients": "40"},
        "sampler",
        {
            "candidates": Pool(
                int, ("5", "20", "40"), ("4", "0", "-1", "41", "1000", "x", "1.5", "")
            ),
            "sampler.micro_batch": WHOLE,
        },
    ),
    Own(
        {"sampler": "cacs", "clients": "20", "cohort": "5"},
        "sampler",
        {
            "warm_up": count("1", "2", bad=("",)),
            "clusters": Pool(int, ("0", "5"), ("-1", "x", "1.5", "", "21")),
            "distance": Pool(str, ("cosine", "angle"), ("l2", "", "none")),
        },
    ),
    Own(
        {"partition": "dirichlet", "clients": "20"},
        "partition",
        {
            "alpha": Pool(float, ("0.1", "10", "1e-5"), POSITIVE),
            "smallest": Pool(int, ("1", "10"), ("0", "-1", "1000", "x", "1.5", "")),
        },
    ),
    Own(
        {"partition": "dirichlet_visiting", "clients": "20"},
        "partition",
        {"alpha": Pool(float, ("0.1", "10", "1e-30"), (*POSITIVE, "1e-310"))},
    ),
    Own(
        {"partition": "classes", "clients": "20"},
        "partition",
        {
            "classes_per_client": Pool(
                int, ("1", "2", "4"), ("0", "-1", "11", "17", "x", "2.5", "")
            ),
            "smallest": Pool(int, ("4", "10"), ("0", "-1", "17", "x", "1.5", "")),
        },
    ),
    Own(
        {"partition": "shards", "clients": "20"},
        "partition",
        {"shards_per_client": Pool(int, ("1", "5"), ("0", "-2", "500", "x", "0.5"))},
    ),
    Own(
        {"model": "mlp"},
        "model",
        {
            "hidden": Pool(
                lambda text: tuple(map(int, text.split(","))),
                ("8", "16,8"),
                ("0", "-1", "8,0", "x", "8,,8", "", "1.5"),
            ),
            "dropout": Pool(float, ("0", "0.5"), ("1", "2", "-0.5", "x", "", *NAN_INF)),
        },
    ),
    Own(
        {
            "dataset": "synthetic",
            "clients": "10",
            "cohort": "5",
            "partition": "natural",
        },
        "dataset",
        {
            "alpha": Pool(float, ("0", "1"), NOT_NEGATIVE),
            "beta": Pool(float, ("0", "1"), NOT_NEGATIVE),
            "iid": SWITCH,
            "dataset.seed": Pool(int, ("0", "3"), ("-1", "x", "0.5")),
        },
    ),
    Own(
        {
            "dataset": "synthetic_population",
            "clients": "40",
            "cohort": "5",
            "partition": "natural",
        },
        "dataset",
        {
            "examples": count("1", "20", bad=(MOST,)),
            "alpha": Pool(float, ("0", "1"), NOT_NEGATIVE),
            "beta": Pool(float, ("0", "1"), NOT_NEGATIVE),
            "dataset.seed": Pool(int, ("0", "3"), ("-1", "x", "0.5")),
        },
    ),
    Own(
        {"algorithm": "fedopt"},
        "algorithm",
        {
            "server_optimizer": Pool(
                lambda text: None,
                ("sgd(learning_rate=1.0)", "adam(learning_rate=0.01, b1=0.8)"),
                (
                    "adam",
                    "adam()x",
                    "adam(0.1)",
                    "adam(learning_rate='a')",
                    "adam(learning_rate=inf)",
                    "adam(learning_rate=1e39)",
                    "adam(speed=1)",
                    "__import__('os').system('false')",
                    "os.getcwd()",
                    "contrib()",
                    "global_norm()",
                    "1,2",
                    "(" * 300,
                ),
            )
        },
    ),
)
