"""What the fields of an experiment may be, as far as that needs no JAX."""

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedjax_mos.lab.setting import Setting

# Fields that are a name or, in Python, an object; algorithm and model say themselves
# what else they may be.
_COMPONENTS = ("dataset", "partition", "loss", "uplink", "downlink", "broadcast")
_COUNTS = ("cohort", "rounds", "batch_size", "eval_every", "pool_every")
_OPTIONAL_COUNTS = ("clients", "steps", "epochs", "pool")
_FLAGS = ("augment", "cohorts", "drop_nonfinite", "dropout_loss", "eval_train")
# Nobody; every client with the server's model; also with one of its own, which the
# client makes of it by a round's local steps of SGD.
PER_CLIENT = ("off", "global", "personal")
# Of matrix products, as JAX names them; the last three say how factors are rounded.
PRECISIONS = ("default", "high", "highest", "bfloat16", "tensorfloat32", "float32")
IMPORTANCE = ("size", "uniform")  # of a client, by name
ROWS = ("auto", "memory", "disk")  # where clients' rows may be kept
DIAGNOSTICS = (
    "squared_gradient_norm",
    "client_drift",
    "direction_error",
    "update_variance",
    "update_cosine",
    "compression_ratio",
    "rule_ratio",
)


def check_setting(setting: "Setting") -> None:
    """Raise a ValueError for the first field that cannot be what it is."""
    for name in (*_COMPONENTS, "backend"):
        value = getattr(setting, name)
        if name == "dataset" and isinstance(value, Mapping):
            _check_stores(value)
        else:
            check_component(name, value, needed=name in ("dataset", "loss", "backend"))
    for name in _COUNTS:
        check_count(name, getattr(setting, name))
    for name in _OPTIONAL_COUNTS:
        if (value := getattr(setting, name)) is not None:
            check_count(name, value)
    for name in _FLAGS:
        if not isinstance(value := getattr(setting, name), bool):
            raise ValueError(f"{name} must be true or false: got {value!r}")
    for name in ("options", "metrics"):
        _check_mapping(name, getattr(setting, name), needed=name == "options")
    if setting.steps is not None and setting.epochs is not None:
        raise ValueError(
            f"give steps or epochs, not both: got {setting.steps} and {setting.epochs}"
        )
    if setting.pool is not None and setting.cohort > setting.pool:
        raise ValueError(
            f"cohort must be at most pool, {setting.pool}: got {setting.cohort}"
        )
    if setting.clients is not None and setting.cohort > setting.clients:
        raise ValueError(
            f"cohort must be at most clients, {setting.clients}: got {setting.cohort}"
        )
    if not _is_number(setting.held_out) or not 0 <= setting.held_out < 1:
        raise ValueError(f"held_out must lie in [0, 1): got {setting.held_out!r}")
    stop = setting.stop_at
    if stop is not None and not (_is_number(stop) and math.isfinite(stop)):
        raise ValueError(f"stop_at must be a finite number: got {stop!r}")
    if setting.per_client not in PER_CLIENT:
        raise ValueError(
            f"per_client must be one of {', '.join(PER_CLIENT)}: "
            f"got {setting.per_client!r}"
        )
    if setting.rows not in ROWS:
        raise ValueError(f"rows must be one of {', '.join(ROWS)}: got {setting.rows!r}")
    if setting.precision not in PRECISIONS:
        raise ValueError(
            f"precision must be one of {', '.join(PRECISIONS)}: "
            f"got {setting.precision!r}"
        )
    check_integer("data_seed", setting.data_seed)
    if setting.data_seed < 0:
        raise ValueError(f"data_seed must not be negative: got {setting.data_seed}")
    if isinstance(setting.importance, str) and setting.importance not in IMPORTANCE:
        raise ValueError(
            f"importance must be one of {', '.join(IMPORTANCE)} or hold a whole "
            f"number per client: got {setting.importance!r}"
        )
    _check_diagnostics(setting.diagnostics)


def check_component(name: str, value: object, *, needed: bool) -> None:
    """Refuse what is neither a name nor an object that could be a component."""
    if name == "dataset" and hasattr(value, "columns"):
        raise ValueError(
            "dataset must be a name or an object that fm.from_frame(frame, label=...) "
            f"makes of a frame: got a {type(value).__name__}"
        )
    plain = isinstance(value, Number | list) or type(value) in (tuple, dict)
    plain = plain or hasattr(value, "dtype")  # an array
    if plain or needed and value is None:
        hint = "; of arrays fm.arrays(x, y, test_x, test_y) makes one"
        wanted = name == "dataset" and hasattr(value, "__len__")
        raise ValueError(
            f"{name} must be a name or an object: got {_shortly(value)}{hint * wanted}"
        )


def check_integer(name: str, value: object) -> None:
    """Refuse all but integers."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer: got {value!r}")


def check_count(name: str, value: int) -> None:
    """Refuse all but 1, 2, ... as far as 32 bits count."""
    check_integer(name, value)
    if value < 1:
        raise ValueError(f"{name} must be at least 1: got {value}")
    if value >= 2**31:
        raise ValueError(f"{name} must be less than 2**31: got {value}")


def as_tuple(name: str, values: Any) -> tuple:
    """A sequence, however it was given, as one that can be compared and written."""
    plain = getattr(values, "tolist", lambda: values)()
    if isinstance(plain, str | Mapping) or not isinstance(plain, Iterable):
        raise ValueError(f"{name} must be a sequence: got {values!r}")
    return tuple(plain)


def _check_stores(stores: Mapping) -> None:
    """Refuse parts that are not divided among clients yet."""
    for name, part in stores.items():
        if not hasattr(part, "order"):
            raise ValueError(
                "dataset must be a mapping of names to what fm.federate(x, y, ...) "
                f"makes: {name} is {_shortly(part)}"
            )


def _shortly(value: object) -> str:
    """A value, but of arrays only how they are held."""
    text = repr(value)
    return f"a {type(value).__name__}" if "array" in text.lower() else text


def _check_mapping(name: str, value: object, *, needed: bool) -> None:
    if value is None and not needed:
        return
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping of names to values: got {value!r}")
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{name} must have names that are strings: got {key!r}")


def _check_diagnostics(names: tuple) -> None:
    for name in names:
        if name not in DIAGNOSTICS:
            raise ValueError(
                f"diagnostics must be some of {', '.join(DIAGNOSTICS)}: got {name!r}"
            )
        if names.count(name) > 1:
            raise ValueError(f"diagnostics must name each once: got {name} twice")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
